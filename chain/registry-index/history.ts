import type { Address } from "viem";
import { afterReturn, type Rating, withPast } from "./reputation.ts";
import type { RegistryState, UnresolvedEnd } from "./state.ts";
import { rate, type Transition } from "./transition.ts";

/**
 * Joins a state that was read from views at some block and followed from there with the replay of all events up to that block: now
 * reputations are complete. Decayed sums commute, so what was counted since stays, and ends that could not be resolved are looked up. Pure.
 */
export function joinHistory(live: RegistryState, replayed: RegistryState, rating: Rating): Transition {
  const providers = live.providers.edit();
  const jobs = live.jobs.edit();
  const touched = new Set<Address>();
  for (const old of replayed.providers.values()) {
    if (old.reputation.size === 0) continue;
    let record = providers.get(old.address);
    if (record === undefined) continue;
    const past = record.generation === old.generation ? old.reputation : afterReturn(old.reputation);
    for (const [modelId, reputation] of past) record = withPast(record, modelId, reputation);
    providers.set(record.address, record);
    touched.add(record.address);
  }
  const ended = new Set<string>();
  for (const unresolved of oldestFirst(live.unresolved)) {
    ended.add(unresolved.jobId);
    const job = replayed.jobs.get(unresolved.jobId);
    const record = providers.get(unresolved.provider);
    if (job === undefined || record === undefined) continue;
    const rated = rate(record, job, unresolved.end, unresolved.generation, rating);
    if (rated === record) continue;
    providers.set(record.address, rated);
    touched.add(record.address);
  }
  for (const [jobId, job] of replayed.jobs.entries()) if (!ended.has(jobId)) jobs.set(jobId, job);
  return {
    state: { providers: providers.done(), jobs: jobs.done(), historyComplete: true, unresolved: undefined },
    touched,
  };
}

function oldestFirst(newest: UnresolvedEnd | undefined): UnresolvedEnd[] {
  const ends: UnresolvedEnd[] = [];
  for (let end = newest; end !== undefined; end = end.earlier) ends.push(end);
  return ends.toReversed();
}
