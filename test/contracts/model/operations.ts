import { type EscrowModel, isLive, type ModelTerms, type ModelUsage } from "./escrow-model.ts";
import { Random } from "./random.ts";
import type { RegistryModel } from "./registry-model.ts";
import { type JobRow, type ModelParameters, type State, Status, ZERO_ADDRESS } from "./state.ts";

/** One step of a random history, as data: the same seed on the same state is the same call. */
export interface Operation {
  readonly name: OperationName;
  readonly seed: number;
  /** Seconds since the step before; 0 = in the same second. */
  readonly delay: number;
}

/** A transaction, for the chain and for the model. */
export interface Call {
  readonly contract: "registry" | "escrow";
  readonly from: string;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly apply: (models: { registry: RegistryModel; escrow: EscrowModel }) => void;
}

/** Whom and what a call can name. */
export interface World {
  readonly state: State;
  readonly parameters: ModelParameters;
  readonly now: bigint;
  readonly admin: string;
  readonly registry: string;
  readonly escrow: string;
  readonly token: string;
  /** A contract that can become a second market. */
  readonly otherMarket: string;
  readonly owners: readonly string[];
  readonly operators: readonly string[];
  readonly clients: readonly string[];
  readonly everybody: readonly string[];
  readonly payouts: readonly string[];
  readonly models: readonly { readonly id: string; readonly key: string }[];
  readonly jobIds: readonly string[];
  readonly signReceipt: (
    signer: string,
    receipt: { jobId: string; provider: string; usage: ModelUsage; responseHash: string },
  ) => Promise<string>;
  readonly signAcknowledgement: (
    signer: string,
    acknowledgement: { jobId: string; provider: string; requestHash: string },
  ) => Promise<string>;
}

const HASH = `0x${"5a".repeat(32)}`;
const OTHER_HASH = `0x${"a5".repeat(32)}`;
const UINT64_MAX = 2n ** 64n - 1n;
const UINT96_MAX = 2n ** 96n - 1n;

const AMOUNTS = [0n, 1n, 999n, 1_000n, 1_001n, 2_500n, 5_000n, 20_000n, 20_000n, 20_000n, 10n ** 9n];
const PAYMENTS = [999n, 1_000n, 1_000n, 1_001n, 2_500n, 2_500n, 2_500n, 5_000n, 5_000n, 20_000n];
const PRICES = [0n, 1n, 150_000n, 150_000n, 600_000n, 600_000n, 1_000_000n, 1_000_000n, 10n ** 9n, UINT96_MAX];
const TOKENS = [0n, 1n, 6n, 7n, 999n, 1_234n, 4_000n, 10n ** 6n, UINT64_MAX];
const DURATIONS = [60n, 61n, 100n, 100n, 300n, 300n, 400n];
const SHORT_DELAYS = [0, 0, 0, 0, 1, 1, 1, 2, 5, 13];
const LONG_DELAYS = [29, 30, 30, 31, 59, 60, 60, 61, 74, 75, 76, 100, 100, 300, 300];
const LONGEST_DELAYS = [599, 600, 601, 4_000];

type Build = (world: World, random: Random) => Call | Promise<Call>;

const builders = {
  // Three with which every history begins, because chance alone would take long to get there.
  enrol: (world, random) => {
    const index = world.state.providers.size % world.owners.length;
    const [from, operator] = [world.owners[index] ?? "", world.operators[index] ?? ""];
    const [payout, stake] = [random.of(world.payouts), random.of([5_000n, 20_000n, 100_000n])];
    return registryCall(from, "register", [operator, payout, "endpoint", stake], (registry) =>
      registry.register(from, operator, payout, "endpoint", stake),
    );
  },
  offer: (world, random) => {
    const from = random.of([...world.state.actsFor.keys(), ...world.owners.slice(0, 1)]);
    const { id, key } = random.of(world.models);
    const prices = [random.of([150_000n, 600_000n, 10n ** 9n]), random.of([600_000n, 1_000_000n, 10n ** 9n])] as const;
    return registryCall(from, "setOffering", [id, ...prices, 4_096n], (registry) =>
      registry.setOffering(from, id, key, ...prices, 4_096n),
    );
  },
  fund: (world, random) => {
    const from = random.of(world.clients);
    const amount = random.of([20_000n, 100_000n]);
    return escrowCall(from, "deposit", [amount], (escrow) => escrow.deposit(from, from, amount));
  },

  register: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    const operator = random.chance(3) ? ZERO_ADDRESS : most(random, [...world.operators, from], world.everybody);
    const payout = payoutOf(world, random);
    const endpoint = "e".repeat(random.chance(90) ? 10 : random.of([0, 1, 256, 257]));
    const stake = random.of(AMOUNTS);
    return registryCall(from, "register", [operator, payout, endpoint, stake], (registry) =>
      registry.register(from, operator, payout, endpoint, stake),
    );
  },
  setOperator: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    const operator = random.chance(5) ? ZERO_ADDRESS : most(random, [...world.operators, from], world.everybody);
    return registryCall(from, "setOperator", [operator], (registry) => registry.setOperator(from, operator));
  },
  resignOperator: (world, random) => {
    const from = most(random, world.operators, world.everybody);
    return registryCall(from, "resignOperator", [], (registry) => registry.resignOperator(from));
  },
  setEndpoint: (world, random) => {
    const from = acting(world, random);
    const endpoint = "f".repeat(random.of([1, 30, 0, 257]));
    return registryCall(from, "setEndpoint", [endpoint], (registry) => registry.setEndpoint(from, endpoint));
  },
  setPayout: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    const payout = payoutOf(world, random);
    return registryCall(from, "setPayout", [payout], (registry) => registry.setPayout(from, payout));
  },
  deactivate: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    return registryCall(from, "deactivate", [], (registry) => registry.deactivate(from));
  },
  reactivate: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    return registryCall(from, "reactivate", [], (registry) => registry.reactivate(from));
  },
  setMaxConcurrentJobs: (world, random) => {
    const from = acting(world, random);
    const cap = random.of([0n, 1n, 1n, 2n, 2n, 3n, 2n ** 32n - 1n]);
    return registryCall(from, "setMaxConcurrentJobs", [cap], (registry) => registry.setMaxConcurrentJobs(from, cap));
  },
  setOffering: (world, random) => {
    const from = acting(world, random);
    const { id, key } = random.of(world.models);
    const [input, output] = [random.of(PRICES), random.of(PRICES)];
    const context = random.of([0n, 4_096n, 4_096n, 4_096n]);
    return registryCall(from, "setOffering", [id, input, output, context], (registry) =>
      registry.setOffering(from, id, key, input, output, context),
    );
  },
  removeOffering: (world, random) => {
    const from = acting(world, random);
    const { id, key } = random.of(world.models);
    return registryCall(from, "removeOffering", [id], (registry) => registry.removeOffering(from, key));
  },
  heartbeat: (world, random) => {
    const from = acting(world, random);
    return registryCall(from, "heartbeat", [], (registry) => registry.heartbeat(from));
  },
  addStake: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    const amount = random.of(AMOUNTS);
    return registryCall(from, "addStake", [amount], (registry) => registry.addStake(from, amount));
  },
  startUnbonding: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    const stake = world.state.providers.get(from)?.stake ?? 0n;
    const amount = random.of([...AMOUNTS, stake, stake + 1n, stake / 2n]);
    return registryCall(from, "startUnbonding", [amount], (registry) => registry.startUnbonding(from, amount));
  },
  withdrawStake: (world, random) => {
    const from = most(random, world.owners, world.everybody);
    return registryCall(from, "withdrawStake", [], (registry) => registry.withdrawStake(from));
  },
  sweepBurntStake: (world, random) => {
    const from = random.of(world.everybody);
    return registryCall(from, "sweepBurntStake", [], (registry) => registry.sweepBurntStake());
  },
  setMarket: (world, random) => {
    const from = random.chance(60) ? world.admin : random.of(world.everybody);
    const allowed = random.chance(85);
    const [market, hasCode] = random.of([
      [world.escrow, true],
      [world.escrow, true],
      [world.otherMarket, true],
      [world.otherMarket, true],
      [ZERO_ADDRESS, false],
    ] as const);
    return registryCall(from, "setMarket", [market, allowed], (registry) =>
      registry.setMarket(from, market, allowed, hasCode),
    );
  },
  proposeMarket: (world, random) => {
    const from = random.chance(80) ? world.admin : random.of(world.everybody);
    const [market, hasCode] = random.of([
      [world.otherMarket, true],
      [world.otherMarket, true],
      [world.escrow, true],
      [random.of(world.everybody), false],
    ] as const);
    return registryCall(from, "proposeMarket", [market], (registry) => registry.proposeMarket(from, market, hasCode));
  },

  deposit: (world, random) => {
    const from = most(random, world.clients, world.everybody);
    const amount = random.of(AMOUNTS);
    return escrowCall(from, "deposit", [amount], (escrow) => escrow.deposit(from, from, amount));
  },
  depositFor: (world, random) => {
    const from = most(random, world.clients, world.everybody);
    const deadEnd = random.of([world.registry, world.token, world.otherMarket, world.escrow, ZERO_ADDRESS]);
    const account = random.chance(15) ? deadEnd : random.of(world.everybody);
    const amount = random.of(AMOUNTS);
    return escrowCall(from, "depositFor", [account, amount], (escrow) => escrow.deposit(from, account, amount));
  },
  /** With a permit that the token refuses: then the allowance counts. */
  depositWithPermit: (world, random) => {
    const from = most(random, world.clients, world.everybody);
    const amount = random.of(AMOUNTS);
    return escrowCall(from, "depositWithPermit", [amount, world.now, 27, HASH, HASH], (escrow) =>
      escrow.deposit(from, from, amount),
    );
  },
  withdraw: (world, random) => {
    const from = most(random, world.clients, world.everybody);
    const free = world.state.accounts.get(from)?.free ?? 0n;
    const amount = random.of([...AMOUNTS, free, free + 1n]);
    const deadEnd = random.of([world.registry, world.token, world.otherMarket, world.escrow, ZERO_ADDRESS]);
    const to = random.of([from, random.of(world.everybody), deadEnd, from, from]);
    return escrowCall(from, "withdraw", [amount, to], (escrow) => escrow.withdraw(from, amount, to));
  },
  withdrawProvider: (world, random) => {
    const provider = most(random, world.owners, world.everybody);
    const from = partyOf(world, random, provider);
    const free = world.state.accounts.get(provider)?.free ?? 0n;
    const amount = random.of([free, free, free + 1n, 1n, 0n]);
    return escrowCall(from, "withdrawProvider", [provider, amount], (escrow) =>
      escrow.withdrawProvider(from, provider, amount),
    );
  },
  postJob: (world, random) => {
    const from = most(random, world.clients, world.everybody);
    const provider = registered(world, random);
    const terms = termsOf(world, random);
    return escrowCall(from, "postJob", [provider, terms], (escrow) => escrow.postJob(from, provider, terms));
  },
  postJobAny: (world, random) => {
    const from = most(random, world.clients, world.everybody);
    const length = random.of([0, 1, 2, 2, 3, 3, 3, 8, 9]);
    const candidates = Array.from({ length }, () => registered(world, random));
    const terms = termsOf(world, random);
    return escrowCall(from, "postJobAny", [candidates, terms], (escrow) => escrow.postJobAny(from, candidates, terms));
  },
  ackJob: (world, random) => {
    const { jobId, provider } = jobOf(world, random);
    const from = partyOf(world, random, provider);
    return escrowCall(from, "ackJob", [jobId], (escrow) => escrow.ackJob(from, jobId));
  },
  completeJob: async (world, random) => {
    const { jobId, provider } = jobOf(world, random);
    const from = partyOf(world, random, provider);
    const { claim, item } = await claimOf(world, random, jobId);
    return escrowCall(from, "completeJob", [jobId, item.usage, item.responseHash, item.clientSignature], (escrow) =>
      escrow.completeJob(from, claim),
    );
  },
  completeJobs: async (world, random) => {
    const { provider } = jobOf(world, random);
    const from = partyOf(world, random, provider);
    const count = random.of([0, 1, 2, 3, 5, 8]);
    const claims: Awaited<ReturnType<typeof claimOf>>[] = [];
    for (let index = 0; index < count; index++) {
      const { jobId } = jobOf(world, random, (job) => job.provider === provider);
      claims.push(await claimOf(world, random, jobId));
    }
    const items = claims.map(({ item }) => item);
    return escrowCall(from, "completeJobs", [items], (escrow) =>
      escrow.completeJobs(
        from,
        claims.map(({ claim }) => claim),
      ),
    );
  },
  declineJob: (world, random) => {
    const { jobId, provider } = jobOf(world, random);
    const from = partyOf(world, random, provider);
    return escrowCall(from, "declineJob", [jobId], (escrow) => escrow.declineJob(from, jobId));
  },
  requestCancel: (world, random) => {
    const { jobId, client } = jobOf(world, random, (job) => job.status === Status.Open);
    const from = random.chance(90) ? client : random.of(world.everybody);
    return escrowCall(from, "requestCancel", [jobId], (escrow) => escrow.requestCancel(from, jobId));
  },
  finalizeCancel: (world, random) => {
    const { jobId } = jobOf(world, random, (job) => job.status === Status.CancelRequested);
    const from = random.of(world.everybody);
    return escrowCall(from, "finalizeCancel", [jobId], (escrow) => escrow.finalizeCancel(jobId));
  },
  expireJobs: (world, random) => {
    const length = random.of([0, 1, 2, 3, 5, 8]);
    const jobIds = Array.from({ length }, () => jobOf(world, random, (job) => job.deadline <= world.now).jobId);
    return escrowCall(random.of(world.everybody), "expireJobs", [jobIds], (escrow) => escrow.expireJobs(jobIds));
  },
  slashJob: async (world, random) => {
    const { jobId, client, provider } = jobOf(world, random, (job) => job.deadline <= world.now);
    const from = random.chance(90) ? client : random.of(world.everybody);
    const signer = random.chance(10) ? undefined : partyOf(world, random, provider);
    const requestHash = random.chance(90) ? HASH : OTHER_HASH;
    const signature =
      signer === undefined ? "0x" : await world.signAcknowledgement(signer, { jobId, provider, requestHash: HASH });
    const consent = requestHash === HASH ? signer : undefined;
    return escrowCall(from, "slashJob", [jobId, requestHash, signature], (escrow) =>
      escrow.slashJob(from, jobId, consent),
    );
  },
  pause: (world, random) => {
    const from = random.chance(60) ? world.admin : random.of(world.everybody);
    return escrowCall(from, "pause", [], (escrow) => escrow.pause(from));
  },
  unpause: (world, random) => {
    const from = random.chance(80) ? world.admin : random.of(world.everybody);
    return escrowCall(from, "unpause", [], (escrow) => escrow.unpause(from));
  },
} satisfies Record<string, Build>;

export type OperationName = keyof typeof builders;

const weights: Readonly<Record<OperationName, number>> = {
  enrol: 0,
  offer: 2,
  fund: 6,
  register: 3,
  setOperator: 2,
  resignOperator: 1,
  setEndpoint: 1,
  setPayout: 1,
  deactivate: 1,
  reactivate: 3,
  setMaxConcurrentJobs: 3,
  setOffering: 5,
  removeOffering: 1,
  heartbeat: 12,
  addStake: 5,
  startUnbonding: 2,
  withdrawStake: 2,
  sweepBurntStake: 1,
  setMarket: 3,
  proposeMarket: 2,
  deposit: 8,
  depositFor: 2,
  depositWithPermit: 1,
  withdraw: 3,
  withdrawProvider: 3,
  postJob: 34,
  postJobAny: 16,
  ackJob: 5,
  completeJob: 10,
  completeJobs: 6,
  declineJob: 4,
  requestCancel: 6,
  finalizeCancel: 6,
  expireJobs: 6,
  slashJob: 5,
  pause: 1,
  unpause: 8,
};

const lottery = (Object.keys(weights) as OperationName[]).flatMap((name) =>
  Array.from({ length: weights[name] }, () => name),
);

const OPENING: readonly OperationName[] = [
  ...Array.from({ length: 3 }, () => "enrol" as const),
  ...Array.from({ length: 9 }, () => "offer" as const),
  ...Array.from({ length: 6 }, () => "fund" as const),
];

/** A history of `length` operations. */
export function randomHistory(seed: number, length: number): readonly Operation[] {
  const random = new Random(seed);
  return Array.from({ length }, (_, index) => {
    const name = OPENING[index] ?? random.of(lottery);
    const long = random.chance(8) ? LONGEST_DELAYS : LONG_DELAYS;
    const delays = index < OPENING.length || random.chance(80) ? SHORT_DELAYS : long;
    return { name, seed: random.next(), delay: random.of(delays) };
  });
}

/** The call that an operation stands for in a world. */
export async function callOf(operation: Operation, world: World): Promise<Call> {
  return await builders[operation.name](world, new Random(operation.seed));
}

// ---------------------------------------------------------------------------------------------------------------- choices

function registryCall(
  from: string,
  method: string,
  args: readonly unknown[],
  apply: (registry: RegistryModel) => void,
): Call {
  return { contract: "registry", from, method, args, apply: ({ registry }) => apply(registry) };
}

function escrowCall(
  from: string,
  method: string,
  args: readonly unknown[],
  apply: (escrow: EscrowModel) => void,
): Call {
  return { contract: "escrow", from, method, args, apply: ({ escrow }) => apply(escrow) };
}

/** Mostly one of the likely ones, sometimes anybody. */
function most(random: Random, likely: readonly string[], all: readonly string[]): string {
  return random.of(random.chance(90) ? likely : all);
}

function acting(world: World, random: Random): string {
  const actors = [...world.state.actsFor.keys()];
  return actors.length === 0 ? random.of(world.everybody) : most(random, actors, world.everybody);
}

function registered(world: World, random: Random): string {
  const providers = [...world.state.providers.keys()];
  return providers.length === 0 ? random.of(world.everybody) : most(random, providers, world.everybody);
}

/** The provider's owner or operator, sometimes anybody. */
function partyOf(world: World, random: Random, provider: string): string {
  const operator = world.state.providers.get(provider)?.operator ?? provider;
  return most(random, [provider, operator, operator], world.everybody);
}

function payoutOf(world: World, random: Random): string {
  return random.of(
    random.chance(90)
      ? [...world.payouts, ...world.owners, world.otherMarket]
      : [world.registry, ZERO_ADDRESS, world.escrow, world.token],
  );
}

/** A job, mostly one for which the call makes sense, else mostly a live one; sometimes one that was never posted. */
function jobOf(
  world: World,
  random: Random,
  sensible: (job: JobRow) => boolean = () => true,
): { jobId: string; client: string; provider: string } {
  const live = [...world.state.jobs].filter(([, job]) => isLive(job));
  const best = live.filter(([, job]) => sensible(job));
  const choices = best.length > 0 && random.chance(70) ? best : live;
  const [chosen, job] = choices.length > 0 && random.chance(90) ? random.of(choices) : [];
  const jobId = chosen ?? random.of([...world.jobIds, HASH]);
  const { client, provider } = job ?? world.state.jobs.get(jobId) ?? {};
  return { jobId, client: client ?? random.of(world.clients), provider: provider ?? registered(world, random) };
}

function termsOf(world: World, random: Random): ModelTerms {
  const maxPayment = random.of(PAYMENTS);
  const limits = [maxPayment, maxPayment / 2n, maxPayment / 2n, 0n, 1n];
  return {
    // Few enough that some are used twice.
    nonce: BigInt(random.below(400)),
    modelKey: random.of(world.models).key,
    maxPayment,
    unsignedLimit: random.chance(95) ? random.of(limits) : maxPayment + 1n,
    maxInputPrice: random.chance(85) ? UINT96_MAX : random.of([0n, 150_000n, 1_000_000n]),
    maxOutputPrice: random.chance(85) ? UINT96_MAX : random.of([600_000n, 1_000_000n]),
    deadline: world.now + (random.chance(95) ? random.of(DURATIONS) : random.of([59n, 401n, 3_600n, 3_601n])),
  };
}

async function claimOf(world: World, random: Random, jobId: string) {
  const job = world.state.jobs.get(jobId);
  const client = job?.client ?? random.of(world.clients);
  const provider = job?.provider ?? random.of(world.owners);
  const usage = { inputTokens: random.of(TOKENS), outputTokens: random.of(TOKENS) };
  const unsigned = random.chance(30);
  const signer = random.chance(90) ? client : random.of(world.everybody);
  // What is claimed is sometimes not what was signed; then nobody signed the claim.
  const signedUsage = random.chance(93) ? usage : { ...usage, inputTokens: usage.inputTokens ^ 1n };
  const clientSignature = unsigned
    ? "0x"
    : await world.signReceipt(signer, { jobId, provider, usage: signedUsage, responseHash: HASH });
  const honest = signedUsage.inputTokens === usage.inputTokens;
  const claimedBy = unsigned ? undefined : honest ? signer : ZERO_ADDRESS;
  return {
    claim: { jobId, usage, responseHash: HASH, signer: claimedBy },
    item: { jobId, usage, responseHash: HASH, clientSignature },
  };
}
