import { type Address, getAddress, isAddress } from "viem";
import { z } from "zod";

const address = z
  .string()
  .refine((value) => isAddress(value, { strict: false }), "must be an address")
  .transform((value): Address => getAddress(value));

const cheapest = z.strictObject({ name: z.literal("cheapest") });

const topRepCheapest = z.strictObject({
  name: z.literal("top_rep_cheapest"),
  /** Share of choices that go to a random newcomer. */
  explore: z.number().min(0).max(1).default(0.05),
});

const manual = z.strictObject({ name: z.literal("manual"), provider: address });

const leastInflight = z.strictObject({ name: z.literal("least_inflight") });

/** One policy with its settings; unknown fields are refused. */
export const policyConfigSchema = z.discriminatedUnion("name", [cheapest, topRepCheapest, manual, leastInflight]);

/** A policy as configured: `name` is required, all else has a default where there is a sensible one. */
export type PolicyConfig = z.input<typeof policyConfigSchema>;

/** A checked configuration with its defaults filled in. */
export type ResolvedPolicyConfig = z.output<typeof policyConfigSchema>;
