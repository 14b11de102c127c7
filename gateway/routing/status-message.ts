import { type Address, type Hex, isAddressEqual } from "viem";
import { z } from "zod";
import { bodyHash } from "../../protocol/body-hash.ts";
import { providerStatusDigest } from "../../protocol/message-digest.ts";
import type { MessageDomain } from "../../protocol/messages.ts";
import { recoverSigner } from "../../protocol/signing.ts";
import type { ProviderStatus } from "../../protocol/status.ts";

/** Why a status was not believed. A bounded word: also a metric label. */
export type StatusFault = "malformed" | "wrong_provider" | "wrong_signer" | "not_newer" | "clock_skew";

/** A status that was not believed. */
export class StatusRejectedError extends Error {
  override readonly name = "StatusRejectedError";
  readonly fault: StatusFault;

  constructor(fault: StatusFault) {
    super(`provider status refused: ${fault}`);
    this.fault = fault;
  }
}

/** Greatest difference in ms between a status' own time and ours. */
export const maxStatusSkewMs = 120_000;
const maxModels = 64;
const shortText = z.string().max(256);
const count = z.number().min(0);

const envelopeSchema = z.object({
  body: z.string().max(65_536),
  signature: z.string().regex(/^0x[0-9a-fA-F]{130}$/),
});

const statusSchema = z.object({
  provider: shortText,
  issuedAt: z.int().min(0),
  draining: z.boolean(),
  maxConcurrentJobs: count,
  running: count,
  models: z
    .array(
      z.object({
        model: shortText.min(1),
        generation: shortText,
        // Not bounded here: an absurd rate is no fault of form, it simply never counts as a value.
        lastMeanInputTps: z.number().optional(),
        maxInputTps: z.number().optional(),
        running: count,
        queuedInputTokens: count.optional(),
        kvFreeTokens: count.optional(),
        clusterId: shortText.optional(),
      }),
    )
    .max(maxModels),
});

/** What a status is held against. */
export interface StatusExpectation {
  readonly domain: MessageDomain;
  readonly provider: Address;
  /** The operator that the registry names now. */
  readonly operator: Address;
  /** Unix ms. */
  readonly nowMs: number;
  /** `issuedAt` of the newest status believed so far; an equal or older one is a replay. */
  readonly newerThan: number;
}

/**
 * Reads a signed status from JSON text and checks whose it is, how old, and that the operator signed exactly these bytes. Throws
 * `StatusRejectedError`.
 */
export function readSignedStatus(text: string, expected: StatusExpectation): ProviderStatus {
  const envelope = parse(envelopeSchema, text);
  const status = parse(statusSchema, envelope.body);
  if (status.provider.toLowerCase() !== expected.provider.toLowerCase()) {
    throw new StatusRejectedError("wrong_provider");
  }
  if (status.issuedAt <= expected.newerThan) throw new StatusRejectedError("not_newer");
  if (Math.abs(status.issuedAt - expected.nowMs) > maxStatusSkewMs) throw new StatusRejectedError("clock_skew");
  const { domain, provider } = expected;
  const digest = providerStatusDigest(domain, {
    provider,
    issuedAt: status.issuedAt,
    bodyHash: bodyHash(envelope.body),
  });
  const signer = recoverSigner(digest, envelope.signature as Hex);
  if (signer === undefined || !isAddressEqual(signer, expected.operator)) throw new StatusRejectedError("wrong_signer");
  return withoutUndefined(status);
}

function parse<T>(schema: z.ZodType<T>, text: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new StatusRejectedError("malformed");
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new StatusRejectedError("malformed");
  return parsed.data;
}

function withoutUndefined(status: z.output<typeof statusSchema>): ProviderStatus {
  const models = status.models.map(
    (model) => Object.fromEntries(Object.entries(model).filter(([, value]) => value !== undefined)) as unknown,
  );
  return { ...status, models: models as ProviderStatus["models"] };
}
