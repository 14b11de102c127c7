import type { Candidate } from "./types.ts";

/** Jobs after which a provider's record says something. */
export const seasonedJobs = 20;
/** Least share of successes of a seasoned provider. */
export const seasonedRatio = 0.95;

type Outcomes = Pick<Candidate, "completedJobs" | "failedJobs">;

/** At least 20 jobs of which at least 95 % succeeded. */
export function isSeasoned(outcomes: Outcomes): boolean {
  const jobs = outcomes.completedJobs + outcomes.failedJobs;
  return jobs >= seasonedJobs && outcomes.completedJobs >= seasonedRatio * jobs;
}

/** Fewer than 20 jobs: neither good nor bad. */
export function isNewcomer(outcomes: Outcomes): boolean {
  return outcomes.completedJobs + outcomes.failedJobs < seasonedJobs;
}
