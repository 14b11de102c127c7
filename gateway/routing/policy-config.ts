import { type Address, getAddress, isAddress } from "viem";
import { z } from "zod";

const address = z
  .string()
  .refine((value) => isAddress(value, { strict: false }), "must be an address")
  .transform((value): Address => getAddress(value));

const share = z.number().min(0).max(1);
const seed = z.int().min(0).default(0);
const milliseconds = z.number().min(0);

const hashing = {
  /** Moves every key to another place; equal on all gateways that shall agree. */
  seed,
  load_factor: z.number().min(1).default(1.25),
  load_margin: z.int().min(0).default(1),
};

const pulsar = {
  seed,
  rendezvous_weight: z.enum(["max-input-tps", "last-mean-input-tps"]).default("max-input-tps"),
  consider_kv_free_tokens: z.boolean().default(false),
  ranking_cache_size: z.int().min(0).max(1_000_000).default(10_000),
  /** Share of choices that go to a free provider of which no statistic is known. */
  explore: share.default(0.02),
};

const widening = {
  queue_limit_floor_ms: milliseconds.optional(),
  queue_limit_ceil_ms: milliseconds.optional(),
  slo_ms: milliseconds.min(1).default(10_000),
  bucket_ms: milliseconds.default(20),
  gap_cost: z.number().min(0).default(0.25),
  max_queued: z.int().min(0).default(0),
  choices: z.int().min(1).max(16).default(2),
};

function queueLimitsInOrder(config: {
  readonly queue_limit_floor_ms?: number | undefined;
  readonly queue_limit_ceil_ms?: number | undefined;
}): boolean {
  const { queue_limit_floor_ms: floor, queue_limit_ceil_ms: ceil } = config;
  return floor === undefined || ceil === undefined || floor <= ceil;
}

const queueLimitsFault = { message: "must not be below queue_limit_floor_ms", path: ["queue_limit_ceil_ms"] };

/** One policy with its settings; unknown fields are refused. */
export const policyConfigSchema = z.discriminatedUnion("name", [
  z.strictObject({ name: z.literal("cheapest") }),
  z.strictObject({
    name: z.literal("top_rep_cheapest"),
    /** Share of choices that go to a random newcomer. */
    explore: share.default(0.05),
  }),
  z.strictObject({ name: z.literal("manual"), provider: address }),
  z.strictObject({
    name: z.literal("least_inflight"),
    /** Share of choices that go to an idle provider of which no recent measurement is known. */
    explore: share.default(0.02),
  }),
  z.strictObject({ name: z.literal("consistent_hash"), ...hashing }),
  z.strictObject({ name: z.literal("prefix_hash"), ...hashing }),
  z.strictObject({ name: z.literal("pulsar"), ...pulsar }),
  z.strictObject({ name: z.literal("wait_and_widen"), ...widening }).refine(queueLimitsInOrder, queueLimitsFault),
  z
    .strictObject({
      name: z.literal("pulsar_wait_and_widen"),
      ...pulsar,
      ...widening,
      /** Ms that a request waits for each band of the ranking before the next is opened to it. */
      band_patience_ms: milliseconds.default(0),
      /** Each band gets so many times the patience of the one before. */
      band_patience_growth: z.number().min(1).max(16).default(1),
    })
    .refine(queueLimitsInOrder, queueLimitsFault),
]);

/** A policy as configured: `name` is required, all else has a default where there is a sensible one. */
export type PolicyConfig = z.input<typeof policyConfigSchema>;

/** A checked configuration with its defaults filled in. */
export type ResolvedPolicyConfig = z.output<typeof policyConfigSchema>;
