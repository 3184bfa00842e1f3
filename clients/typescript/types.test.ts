/** The SDK's own client is an Invoker. This file is only type-checked, never run: `make types`. */

import { Lambda } from "@aws-sdk/client-lambda";
import { Leasehold, type Invoker } from "./leasehold.ts";

const invoker: Invoker = new Lambda({});
export const leases = new Leasehold(invoker, { acquire: "a", extend: "e", release: "r", start: "s", holder: "me" });
