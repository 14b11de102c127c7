import type { Candidate, CandidatePool } from "../types.ts";

/** Up to here all candidates are judged. */
export const judgedWhole = 64;
/**
 * Above, so many drawn uniformly: the best of 16 random ones is within the best sixth with a probability of 95 %, which spreads load nearly
 * as well as knowing all, and gateways that draw on their own do not all run to the same best one.
 */
const drawn = 16;

/** The candidates that a policy which looks at every candidate's load judges. */
export function loadSample(pool: CandidatePool): Candidate[] {
  return pool.sample(pool.size <= judgedWhole ? judgedWhole : drawn);
}
