import type { Candidate, CandidatePool } from "../types.ts";

/** Up to here all candidates are judged. */
export const judgedWhole = 64;
/**
 * Above, so many drawn uniformly: the best of 8 random ones is within the best third with a probability of 96 %, which spreads load nearly as
 * well as knowing all (two choices already keep the longest queue short), and gateways that draw on their own do not all run to the same best one.
 */
const drawn = 8;

/** The candidates that a policy which looks at every candidate's load judges. */
export function loadSample(pool: CandidatePool): Candidate[] {
  return pool.sample(pool.size <= judgedWhole ? judgedWhole : drawn);
}
