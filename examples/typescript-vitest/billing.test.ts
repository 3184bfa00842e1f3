/** `leasehold-local exec` starts the stack, and points the SDK at it. */

import { expect, test } from "vitest";
import { bill } from "./billing.ts";

test("one at a time", async () => {
  expect(await bill("1", (order) => bill(order, async () => "paid twice"))).toBe("somebody else is at it");
  expect(await bill("1", async () => "paid")).toBe("paid");
});

test("a failure leaves the order free", async () => {
  const declined = bill("2", async () => { throw new Error("declined"); });
  await expect(declined).rejects.toThrow("declined");
  expect(await bill("2", async () => "paid")).toBe("paid");
});
