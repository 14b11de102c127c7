/** Parameters of both contracts. */
export interface ModelParameters {
  readonly minStake: bigint;
  readonly timeToLive: bigint;
  readonly unbondingPeriod: bigint;
  readonly collateralBps: bigint;
  readonly minPayment: bigint;
  readonly minDuration: bigint;
  readonly maxDuration: bigint;
  readonly ackWindow: bigint;
  readonly responseWindow: bigint;
}

export interface ProviderRow {
  operator: string;
  payout: string;
  active: boolean;
  lastSeen: bigint;
  generation: bigint;
  cap: bigint;
  openJobs: bigint;
  /** Sum of what open jobs hold. */
  exposure: bigint;
  stake: bigint;
  unbonding: bigint;
  unbondingAt: bigint;
  /** Keys of the live offerings, in the order of the contract's set: the last one takes a removed one's place. */
  models: string[];
  endpoint: string;
}

export interface OfferingRow {
  readonly provider: string;
  readonly modelKey: string;
  readonly modelId: string;
  readonly inputPrice: bigint;
  readonly outputPrice: bigint;
  readonly contextLength: bigint;
}

/** Numbers of `IJobEscrow.JobStatus`. */
export const Status = {
  None: 0n,
  Open: 1n,
  Acknowledged: 2n,
  CancelRequested: 3n,
  Completed: 4n,
  Declined: 5n,
  Cancelled: 6n,
  Expired: 7n,
  Slashed: 8n,
} as const;

export interface JobRow {
  readonly client: string;
  readonly provider: string;
  readonly offeringId: bigint;
  readonly maxPayment: bigint;
  readonly unsignedLimit: bigint;
  readonly postedAt: bigint;
  readonly deadline: bigint;
  since: bigint;
  status: bigint;
}

export interface MarketRow {
  known: boolean;
  allowed: boolean;
  suspended: boolean;
  /** 0 = not proposed. */
  allowableFrom: bigint;
}

export interface AccountRow {
  free: bigint;
  locked: bigint;
}

/** All that both contracts and the token know, as plain data that `structuredClone` copies. Addresses are checksummed. */
export interface State {
  now: bigint;
  readonly tokens: Map<string, bigint>;
  /** In order of registration. */
  readonly providers: Map<string, ProviderRow>;
  /** Account -> the provider that it acts for. */
  readonly actsFor: Map<string, string>;
  /** `owner operator` -> when that operator ceased to be one. */
  readonly resigned: Map<string, bigint>;
  /** Record n is at n - 1. */
  readonly records: OfferingRow[];
  /** `owner modelKey` -> id of the live record. */
  readonly current: Map<string, bigint>;
  readonly modelProviders: Map<string, string[]>;
  /** What the registry knows of each market. */
  readonly markets: Map<string, MarketRow>;
  burntStake: bigint;
  readonly accounts: Map<string, AccountRow>;
  readonly jobs: Map<string, JobRow>;
}

export function emptyState(): State {
  return {
    now: 0n,
    tokens: new Map(),
    providers: new Map(),
    actsFor: new Map(),
    resigned: new Map(),
    records: [],
    current: new Map(),
    modelProviders: new Map(),
    markets: new Map(),
    burntStake: 0n,
    accounts: new Map(),
    jobs: new Map(),
  };
}

/** What a contract says or refuses, as values that compare by their JSON. */
export type Value = bigint | string | boolean | readonly Value[];

export interface Emitted {
  readonly name: string;
  readonly args: readonly Value[];
}

/** A call that reverts with a custom error. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly error: string;
  readonly args: readonly Value[];

  constructor(error: string, args: readonly Value[] = []) {
    super(`${error}(${args.map(String).join(", ")})`);
    this.error = error;
    this.args = args;
  }
}

export function refuseIf(condition: boolean, error: string, ...args: readonly Value[]): void {
  if (condition) throw new Refused(error, args);
}

export const ZERO_ADDRESS = "0x0000000000000000000000000000000000000000";
