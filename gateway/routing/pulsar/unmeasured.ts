import type { HashRing } from "../ring/hash-ring.ts";
import type { Candidate, PolicyInput } from "../types.ts";
import type { PulsarRanking } from "./pulsar-ranker.ts";
import { type PulsarGates, hasRoom } from "./pulsar-walk.ts";

/** Members without any statistic that are asked whether they are free. */
const mostAsked = 64;

/**
 * A free candidate that has neither statistic, by chance among those that were not ranked: it can only come to have one by being given
 * work. One that reports the other statistic was measured, and is left out as the rule has it. Undefined: there is none, or (of those
 * that are only to be asked with a probability of `share`) this request is not to look for it.
 */
export function unmeasuredCandidate(
  input: PolicyInput,
  ring: HashRing,
  ranking: PulsarRanking,
  gates: PulsarGates,
  share: number,
): Candidate | undefined {
  const { unweighted } = ranking;
  // Looked for first: a fleet of which everybody was measured costs no chance, and so has the same choices with any share.
  if (!unweighted.some((slot) => isSilent(input, ring, slot))) return undefined;
  if (share < 1 && input.random() >= share) return undefined;
  const start = Math.floor(input.random() * unweighted.length);
  let asked = 0;
  for (let step = 0; step < unweighted.length && asked < mostAsked; step += 1) {
    const slot = unweighted[(start + step) % unweighted.length] as number;
    if (!isSilent(input, ring, slot)) continue;
    asked += 1;
    const candidate = input.pool.find(slot);
    if (candidate !== undefined && hasRoom(input, candidate, gates)) return candidate;
  }
  return undefined;
}

/** Whether the provider of a slot reports no throughput of the request's model; without a model, of none that it offers. */
function isSilent({ request, published, statistics }: PolicyInput, ring: HashRing, slot: number): boolean {
  const provider = ring.addressOf(slot);
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
