export const batchSize = 20;

export interface Row {
  readonly key: string;
  readonly what: string;
  readonly target?: number;
}

/** What is measured, in the order of the table. */
export const rows: readonly Row[] = [
  { key: "register", what: "register, with stake" },
  { key: "setMaxConcurrentJobs", what: "setMaxConcurrentJobs" },
  { key: "setOfferingChanged", what: "setOffering, another price" },
  { key: "heartbeat", what: "heartbeat", target: 30_000 },
  { key: "deposit", what: "deposit" },
  { key: "withdraw", what: "withdraw" },
  { key: "postJob", what: "postJob", target: 95_000 },
  { key: "postJobAny4First", what: "postJobAny, 4 candidates, the first is free" },
  { key: "postJobAny4", what: "postJobAny, 4 candidates, three are full" },
  { key: "completeJob", what: "completeJob, with receipt", target: 60_000 },
  { key: "completeJobSeen", what: "completeJob, with receipt, refreshing lastSeen" },
  { key: "completeJobUnsigned", what: "completeJob, without receipt", target: 60_000 },
  { key: "completeJobsPerItem", what: `completeJobs, per item of ${batchSize}`, target: 30_000 },
  {
    key: "completeJobsPerItemManyClients",
    what: `completeJobs, per item of ${batchSize}, each another client`,
    target: 30_000,
  },
  { key: "ackJob", what: "ackJob" },
  { key: "declineJob", what: "declineJob" },
  { key: "requestCancel", what: "requestCancel" },
  { key: "finalizeCancel", what: "finalizeCancel" },
  { key: "expireJobsPerItem", what: `expireJobs, per item of ${batchSize}`, target: 45_000 },
  {
    key: "expireJobsPerItemManyParties",
    what: `expireJobs, per item of ${batchSize}, each another client and provider`,
    target: 45_000,
  },
  { key: "slashJob", what: "slashJob" },
  { key: "wholeJob", what: "whole job: postJob + completeJob", target: 155_000 },
];

/** Figures that others publish for the same steps. */
export const published: readonly (readonly [what: string, gas: string])[] = [
  ["posting a job, other inference markets", "208,000-259,000"],
  ["acknowledging on chain", "36,000"],
  ["settling", "87,000-100,000"],
  ["whole job, three transactions", "334,000-395,000"],
  ["commerce-payments authorize", "156,000"],
  ["commerce-payments capture", "70,000"],
];

export type Figures = Readonly<Record<string, number>>;

export function figureOf(all: Figures, key: string): number {
  const figure = all[key];
  if (figure === undefined) throw new Error(`nothing measured ${key}`);
  return figure;
}
