/** Takes the payment of an order, at most once at a time. */

import { Lambda } from "@aws-sdk/client-lambda";
import { LeaseHeld, Leasehold } from "leasehold";

const names = { acquire: "AcquireFunction", extend: "ExtendFunction", release: "ReleaseFunction" };
const leases = new Leasehold(new Lambda({}), { ...names, holder: "billing" });

export async function bill(order: string, takePayment: (order: string) => Promise<string>): Promise<string> {
  try {
    return await leases.withLease({ key: `orders/${order}`, ttlSeconds: 60 }, () => takePayment(order));
  } catch (error) {
    if (error instanceof LeaseHeld) return "somebody else is at it";
    throw error;
  }
}
