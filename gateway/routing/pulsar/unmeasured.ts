import type { Address } from "viem";
import type { HashRing } from "../ring/hash-ring.ts";
import type { Candidate, PolicyInput } from "../types.ts";
import { type PulsarGates, hasRoom } from "./pulsar-walk.ts";

/** Members without any statistic that are asked whether they are free by a request that others could serve as well. */
const mostAsked = 64;

/** Who was not ranked for lack of the selected statistic. */
export interface Unweighted {
  /** Slots of members that were met; whether they are free was not asked. */
  readonly slots: readonly number[];
  /** Free candidates that were found otherwise. */
  readonly candidates: readonly Candidate[];
}

/**
 * A free candidate that has neither statistic, by chance among those that were not ranked: it can only come to have one by being given
 * work. One that reports the other statistic was measured, and is left out as the rule has it. Undefined: there is none, or (of those
 * that are only to be asked with a probability of `share`) this request is not to look for it.
 */
export function unmeasuredCandidate(
  input: PolicyInput,
  ring: HashRing,
  { slots, candidates }: Unweighted,
  gates: PulsarGates,
  share: number,
): Candidate | undefined {
  const silent = candidates.filter(
    (candidate) => isSilent(input, candidate.provider) && hasRoom(input, candidate, gates),
  );
  // Looked for first: a fleet of which everybody was measured costs no chance, and so has the same choices with any share.
  if (silent.length === 0 && !slots.some((slot) => isSilent(input, ring.addressOf(slot)))) return undefined;
  if (share < 1 && input.random() >= share) return undefined;
  if (silent.length > 0) return silent[Math.floor(input.random() * silent.length)];
  const start = Math.floor(input.random() * slots.length);
  const most = share < 1 ? mostAsked : slots.length;
  let asked = 0;
  for (let step = 0; step < slots.length && asked < most; step += 1) {
    const slot = slots[(start + step) % slots.length] as number;
    if (!isSilent(input, ring.addressOf(slot))) continue;
    asked += 1;
    const candidate = input.pool.find(slot);
    if (candidate !== undefined && hasRoom(input, candidate, gates)) return candidate;
  }
  return undefined;
}

/** Whether a provider reports no throughput of the request's model; without a model, of none that it offers. */
function isSilent({ request, published, statistics }: PolicyInput, provider: Address): boolean {
  const models =
    request.modelId === undefined
      ? [...(published.snapshot.provider(provider)?.offerings.keys() ?? [])]
      : [request.modelId];
  return models.every((modelId) => {
    const reported = statistics.reported(provider, modelId);
    return !isRate(reported?.maxInputTps) && !isRate(reported?.lastMeanInputTps);
  });
}

function isRate(value: number | undefined): boolean {
  return value !== undefined && Number.isFinite(value) && value > 0;
}
