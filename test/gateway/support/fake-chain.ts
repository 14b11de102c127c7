import { type Address, encodeAbiParameters, type Hex, keccak256, pad, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { JobChange, ProviderRecord, Published } from "../../../chain/registry-index/types.ts";
import { systemClock } from "../../../chain/system-clock.ts";
import type { TransactionOutcome } from "../../../chain/transactions/types.ts";
import type {
  ChainPort,
  ChainServices,
  EscrowPort,
  GatewayChainOptions,
} from "../../../gateway/chain/gateway-chain.ts";
import { ChainTime } from "../../../gateway/jobs/chain-time.ts";
import type { EscrowTerms, JobOnChain, PostOutcome, PostRequest } from "../../../gateway/jobs/escrow-calls.ts";
import { deriveRoutingState, type RoutingState } from "../../../gateway/routing/state.ts";
import { paymentFor, type Prices } from "../../../protocol/money.ts";
import type { Usage } from "../../../protocol/usage.ts";
import { snapshotOf } from "../routing/support/registry.ts";
import { testTarget, walletKey } from "./test-settings.ts";

/** A job of the fake escrow. */
export interface FakeJob extends JobOnChain {
  readonly jobId: Hex;
  readonly maxPayment: bigint;
  readonly modelId: string;
  readonly payment: bigint;
  readonly usage: Usage | undefined;
}

export const fakeTerms: EscrowTerms = {
  token: { address: "0x0000000000000000000000000000000000000001", symbol: "TEST", decimals: 6 },
  minPayment: 1n,
  collateralBps: 10_000,
  minDuration: 60,
  maxDuration: 86_400,
  ackWindow: 30,
  responseWindow: 60,
};

const emptyJob = { provider: pad("0x00", { size: 20 }), since: 0, deadline: 0 } as const;

/** What a test can make the next posts do. */
export type PostFault = (request: PostRequest) => PostOutcome | undefined | Promise<PostOutcome | undefined>;

/** A chain in memory: registry, escrow and index agree at once, or when a test says so. */
export class FakeChain {
  readonly jobs = new Map<Hex, FakeJob>();
  /** Calls to the escrow by name, in order. */
  readonly calls: string[] = [];
  readonly posts: PostRequest[] = [];
  postFault: PostFault | undefined;
  /** Settles when posts that are in a block have their confirmations. */
  confirmed: Promise<unknown> = Promise.resolve();
  /** Posts of which nobody knows yet whether they come onto the chain. */
  readonly undecidedPosts = new Set<Hex>();
  /** Posts that were mined, whatever a reorganisation made of them. */
  readonly #mined = new Map<Hex, PostOutcome>();
  /** How often the node fails to tell what a completed job paid. */
  completionFaults = 0;
  /** How many cancels find a newest block that is still too early for them. */
  earlyCancels = 0;
  /** What `services` gives: undefined is a chain that was never reached. */
  isUp = true;
  hasGas = true;
  gasPrice = 1_000_000_000n;
  topUp: (required: bigint) => boolean = () => false;
  /** False: the index stands still until `publish` is called. */
  publishesAtOnce = true;
  #providers = new Map<Address, ProviderRecord>();
  #options: GatewayChainOptions | undefined;
  #published: Published<RoutingState> | undefined;
  #block = 1;
  #version = 0;
  /** Of all processes: no nonce is ever given twice. */
  #nonces = 0n;
  #timestamp = Math.floor(Date.now() / 1000);

  /** Registers or replaces a provider. */
  setProvider(record: ProviderRecord): void {
    this.#providers.set(record.address, { ...record, lastSeen: this.#timestamp });
    this.publish();
  }

  provider(address: Address): ProviderRecord {
    const record = this.#providers.get(address);
    if (record === undefined) throw new Error(`no provider ${address}`);
    return record;
  }

  /** Moves chain time on. */
  advance(seconds: number): void {
    this.#timestamp += seconds;
    for (const [address, record] of this.#providers)
      this.#providers.set(address, { ...record, lastSeen: this.#timestamp });
    this.publish();
  }

  /** Moves chain time on while no provider is heard of. */
  silence(seconds: number): void {
    this.#timestamp += seconds;
    this.publish();
  }

  /** Publishes the registry as it is now. */
  publish(): void {
    this.#block += 1;
    this.#version += 1;
    const snapshot = {
      ...snapshotOf(this.#providers.values(), { version: this.#version, blockTimestamp: this.#timestamp }),
      blockNumber: this.#block,
    };
    const delta = { providers: new Set(this.#providers.keys()), models: new Set(snapshot.models()) };
    this.#published = { snapshot, derived: deriveRoutingState(snapshot, delta, undefined) };
    this.#time?.observe(this.#timestamp);
    this.#options?.onPublished(this.#published, delta);
  }

  #time: ChainTime | undefined;
  #jobIdOf: ((nonce: bigint) => Hex) | undefined;

  /** Ends a job on chain and tells the gateway. */
  end(jobId: Hex, change: Exclude<JobChange, { type: "posted" | "acknowledged" | "cancel_requested" }>): void {
    const job = this.#job(jobId);
    const status = {
      completed: "Completed",
      declined: "Declined",
      cancelled: "Cancelled",
      expired: "Expired",
      slashed: "Slashed",
    } as const;
    const paid = change.type === "completed";
    this.jobs.set(jobId, {
      ...job,
      status: status[change.type],
      payment: paid ? change.payment : 0n,
      usage: paid ? { inputTokens: Number(change.inputTokens), outputTokens: Number(change.outputTokens) } : undefined,
    });
    this.#changeOpenJobs(job.provider, -1);
    this.#options?.onJobEvent({ ...change, jobId, provider: job.provider, place: this.#place(jobId), removed: false });
  }

  /** Pays a job by a usage, as the provider's transaction would. */
  complete(jobId: Hex, usage: Usage, responseHash: Hex, signed = true): void {
    const { provider, modelId, maxPayment, status } = this.#job(jobId);
    if (status !== "Open") return;
    const offering = this.provider(provider).offerings.get(modelId);
    const price = offering === undefined ? 0n : paymentFor(offering satisfies Prices, usage);
    this.end(jobId, {
      type: "completed",
      payment: price < maxPayment ? price : maxPayment,
      inputTokens: BigInt(usage.inputTokens),
      outputTokens: BigInt(usage.outputTokens),
      responseHash,
      signed,
    });
  }

  /** For `GatewayDependencies.openChain`. */
  async open(options: GatewayChainOptions): Promise<ChainPort> {
    this.#options = options;
    const time = new ChainTime(options.clock);
    time.observe(this.#timestamp);
    this.#time = time;
    const account = privateKeyToAccount(walletKey);
    const isUp = (): boolean => this.isUp;
    const block = (): number => this.#block;
    const services: ChainServices = {
      terms: fakeTerms,
      calls: this.#escrow(account.address),
      treasury: { topUp: async (required) => this.topUp(required) },
    };
    return {
      account,
      time,
      get services() {
        return isUp() ? services : undefined;
      },
      published: () => (this.isUp ? this.#published : undefined),
      get indexHealth() {
        return {
          ready: isUp(),
          blockNumber: block(),
          sinceLastPollMs: 0,
          lastError: undefined,
          reorganisations: 0,
          drift: 0,
        };
      },
      notReady: () => (this.isUp ? undefined : "the chain cannot be used"),
      pendingTransactions: 0,
      balance: undefined,
      poke: () => undefined,
      nextNonce: () => {
        this.#nonces += 1n;
        return this.#nonces;
      },
      hasGas: async () => this.hasGas,
      close: async () => undefined,
    };
  }

  /** The chain is reached for the first time. */
  comeUp(): void {
    this.isUp = true;
    this.#options?.onReady();
    this.publish();
  }

  #escrow(client: Address): EscrowPort {
    const jobIdOf = (nonce: bigint): Hex =>
      keccak256(
        encodeAbiParameters(
          [{ type: "uint256" }, { type: "address" }, { type: "address" }, { type: "uint256" }],
          [BigInt(testTarget.chainId), testTarget.escrow, client, nonce],
        ),
      );
    this.#jobIdOf = jobIdOf;
    return {
      jobIdOf,
      post: async (request) => await this.#post(request, jobIdOf(request.nonce)),
      outcomeOfPost: async (_key, _candidates, jobId) => {
        if (this.undecidedPosts.has(jobId)) return { kind: "pending" };
        return this.#mined.get(jobId);
      },
      jobOf: async (jobId) => {
        this.calls.push("jobOf");
        const job = this.jobs.get(jobId);
        if (job === undefined) return { ...emptyJob, status: "None" };
        // As the escrow: a completion empties the slot of all but the status.
        return job.status === "Completed" ? { ...emptyJob, status: "Completed" } : job;
      },
      completionOf: async (jobId) => {
        if (this.completionFaults > 0) {
          this.completionFaults -= 1;
          throw new Error("block range is too large");
        }
        const job = this.jobs.get(jobId);
        return job?.usage === undefined
          ? undefined
          : { payment: job.payment, usage: job.usage, transactionHash: jobId };
      },
      account: async () => ({ free: 0n, locked: 0n }),
      requestCancel: async (_key, jobId) => {
        this.calls.push("requestCancel");
        if (this.earlyCancels > 0) {
          this.earlyCancels -= 1;
          const errorName = "CancelTooEarly";
          return {
            status: "reverted",
            hash: undefined,
            errorName,
            errorArgs: [jobId],
            message: `reverted: ${errorName}`,
          };
        }
        const job = this.#job(jobId);
        this.jobs.set(jobId, { ...job, status: "CancelRequested", since: this.#timestamp });
        return success(jobId);
      },
      finalizeCancel: async (_key, jobId) => {
        this.calls.push("finalizeCancel");
        this.end(jobId, { type: "cancelled" });
        return success(jobId);
      },
      expire: async (_key, jobIds) => {
        this.calls.push("expire");
        // A block before the deadline skips the job: the transaction succeeds and changes nothing.
        const due = jobIds.filter((jobId) => this.#timestamp >= this.#job(jobId).deadline);
        for (const jobId of due) this.end(jobId, { type: "expired" });
        return new Set(due);
      },
      gasPrice: async () => this.gasPrice,
      slash: async (_key, jobId) => {
        this.calls.push("slash");
        this.end(jobId, { type: "slashed", burnt: 1n });
        return success(jobId);
      },
    };
  }

  async #post(request: PostRequest, jobId: Hex): Promise<PostOutcome> {
    this.posts.push(request);
    const fault = await this.postFault?.(request);
    if (fault?.kind === "abandoned" && fault.undecided) this.undecidedPosts.add(jobId);
    if (fault !== undefined) return fault;
    const outcome = this.#take(request, jobId);
    await this.confirmed;
    return outcome;
  }

  /** A reorganisation takes a job's post back for good. */
  forget(jobId: Hex): void {
    const { provider } = this.#job(jobId);
    this.jobs.delete(jobId);
    this.#changeOpenJobs(provider, -1);
  }

  /** A post that its caller has given up is mined after all. */
  mineLate(index: number): Hex {
    const request = this.posts[index];
    if (request === undefined || this.#jobIdOf === undefined) throw new Error(`no post ${index}`);
    const jobId = this.#jobIdOf(request.nonce);
    this.undecidedPosts.delete(jobId);
    this.#take(request, jobId);
    return jobId;
  }

  #take(request: PostRequest, jobId: Hex): PostOutcome {
    const { plan } = request;
    const taker = plan.candidates.find(({ provider }) => {
      const { maxConcurrentJobs, openJobs } = this.provider(provider);
      return maxConcurrentJobs === 0 || openJobs < maxConcurrentJobs;
    });
    if (taker === undefined) {
      return { kind: "refused", refusals: new Map(plan.candidates.map(({ provider }) => [provider, "full"])) };
    }
    this.jobs.set(jobId, {
      jobId,
      status: "Open",
      provider: taker.provider,
      since: this.#timestamp,
      deadline: request.deadline,
      maxPayment: plan.maxPayment,
      modelId: plan.modelId,
      payment: 0n,
      usage: undefined,
    });
    const posted = {
      kind: "posted",
      provider: taker.provider,
      transactionHash: jobId,
      blockNumber: this.#block + 1,
    } as const;
    this.#mined.set(jobId, posted);
    this.#changeOpenJobs(taker.provider, 1);
    if (this.publishesAtOnce) {
      this.#options?.onJobEvent({
        type: "posted",
        client: privateKeyToAccount(walletKey).address,
        offeringId: 1,
        maxPayment: plan.maxPayment,
        unsignedLimit: plan.unsignedLimit,
        deadline: request.deadline,
        jobId,
        provider: taker.provider,
        place: this.#place(jobId),
        removed: false,
      });
    }
    return posted;
  }

  #changeOpenJobs(provider: Address, by: number): void {
    const record = this.provider(provider);
    this.#providers.set(provider, { ...record, openJobs: record.openJobs + by });
    if (this.publishesAtOnce) this.publish();
  }

  #job(jobId: Hex): FakeJob {
    const job = this.jobs.get(jobId);
    if (job === undefined) throw new Error(`no job ${jobId}`);
    return job;
  }

  #place(jobId: Hex) {
    return {
      blockNumber: this.#block,
      blockHash: pad(toHex(this.#block), { size: 32 }),
      transactionHash: jobId,
      logIndex: 0,
    };
  }
}

function success(hash: Hex): TransactionOutcome {
  return { status: "success", hash, receipt: {} as never };
}

/** Real time, for gateways under test. */
export const testClock = systemClock;
