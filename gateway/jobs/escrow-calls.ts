import { type Address, encodeFunctionData, erc20Abi, type Hex, parseEventLogs, type PublicClient } from "viem";
import { jobEscrowAbi } from "../../chain/abi/job-escrow.ts";
import { providerRegistryAbi } from "../../chain/abi/provider-registry.ts";
import { jobIdOf } from "../../chain/job-id.ts";
import { chainUnavailableIn } from "../../chain/rpc-errors.ts";
import type { TransactionOutcome, TransactionQueue } from "../../chain/transactions/types.ts";
import { modelKeyOf } from "../../protocol/model-key.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { EscrowPlan } from "./escrow-plan.ts";
import { searchEvent } from "./event-search.ts";

/** Least gas of `expireJobs` apart from its jobs, and gas for each: twice what `npm run gas` shows for jobs of different parties. */
const expiryGas = 80_000n;
const expiryGasPerJob = 65_000n;
/** How far back an event is looked for whose block nothing tells. */
const recentBlocks = 5000n;

function recent(head: bigint): bigint {
  return head < recentBlocks ? 0n : head - recentBlocks;
}

/** In what amounts are told: one token is 10^decimals of its smallest unit. A token that does not say has neither. */
export interface TokenUnit {
  readonly address: Address;
  /** The token's own text: not fit for display as it is. */
  readonly symbol: string | undefined;
  readonly decimals: number | undefined;
}

/** Windows and bounds of one escrow deployment; times in seconds. */
export interface EscrowTerms {
  readonly token: TokenUnit;
  readonly minPayment: bigint;
  /** Basis points of a job's largest payment that the provider's stake must cover. */
  readonly collateralBps: number;
  readonly minDuration: number;
  readonly maxDuration: number;
  readonly ackWindow: number;
  readonly responseWindow: number;
}

/** How a post ended. */
export type PostOutcome =
  | {
      readonly kind: "posted";
      readonly provider: Address;
      readonly transactionHash: Hex;
      readonly blockNumber: number;
    }
  /** Nobody could take it, for one reason each. Cost nothing. */
  | { readonly kind: "refused"; readonly refusals: ReadonlyMap<Address, PostRefusal> }
  | { readonly kind: "insufficient_balance"; readonly free: bigint; readonly required: bigint }
  | { readonly kind: "bad_deadline"; readonly earliest: number; readonly latest: number }
  | { readonly kind: "failed"; readonly errorName: string | undefined; readonly message: string }
  /** Not sent in time: the chain cannot be reached, or the wallet cannot pay for gas. `undecided`: it may still come onto the chain. */
  | { readonly kind: "abandoned"; readonly message: string; readonly undecided: boolean };

/**
 * Why the chain did not give a job to a candidate. `full`: no slot. `low_stake`: its stake does not cover one more job of this size
 * now. `unable`: it is not what the index took it for.
 */
export type PostRefusal = "full" | "low_stake" | "unable";

/** A job as the escrow has it; times in Unix seconds. */
export interface JobOnChain {
  readonly status: JobStatusName;
  readonly provider: Address;
  readonly since: number;
  readonly deadline: number;
}

/** Names of `IJobEscrow.JobStatus`, in its order. */
export const jobStatusNames = [
  "None",
  "Open",
  "Acknowledged",
  "CancelRequested",
  "Completed",
  "Declined",
  "Cancelled",
  "Expired",
  "Slashed",
] as const;
export type JobStatusName = (typeof jobStatusNames)[number];

/** Members of `IProviderRegistry.Refusal` that pass by themselves. */
const passingRefusals: Readonly<Record<number, PostRefusal>> = { 6: "full", 7: "low_stake" };

/** Terms of one post beyond the plan. */
export interface PostRequest {
  /** Idempotency key of the transaction queue. */
  readonly key: string;
  readonly nonce: bigint;
  readonly plan: EscrowPlan;
  /** Unix seconds. */
  readonly deadline: number;
  readonly sendWithinMs: number;
  /** Ms within which the outcome is told, whatever is known by then. */
  readonly answerWithinMs: number;
}

/** All that the gateway asks of the escrow, for one wallet. */
export class EscrowCalls {
  readonly #queue: TransactionQueue;
  readonly #client: PublicClient;
  readonly #escrow: Address;
  readonly #registry: Address;
  readonly #chainId: number;

  constructor(options: {
    readonly queue: TransactionQueue;
    readonly client: PublicClient;
    readonly escrow: Address;
    readonly registry: Address;
    readonly chainId: number;
  }) {
    this.#queue = options.queue;
    this.#client = options.client;
    this.#escrow = options.escrow;
    this.#registry = options.registry;
    this.#chainId = options.chainId;
  }

  /** The wallet: client of every job. */
  get wallet(): Address {
    return this.#queue.address;
  }

  /** The id that a job of this wallet gets, exactly as `JobEscrow.jobIdOf`. */
  jobIdOf(nonce: bigint): Hex {
    return jobIdOf(this.#chainId, this.#escrow, this.#queue.address, nonce);
  }

  /** Reads the deployment's constants. Rejects when the chain cannot be reached. */
  async readTerms(): Promise<EscrowTerms> {
    const contract = { address: this.#escrow, abi: jobEscrowAbi } as const;
    const registry = { address: this.#registry, abi: providerRegistryAbi } as const;
    const [token, minPayment, minDuration, maxDuration, ackWindow, responseWindow, bps] = await Promise.all([
      this.#client.readContract({ ...contract, functionName: "token" }),
      this.#client.readContract({ ...contract, functionName: "minPayment" }),
      this.#client.readContract({ ...contract, functionName: "minDuration" }),
      this.#client.readContract({ ...contract, functionName: "maxDuration" }),
      this.#client.readContract({ ...contract, functionName: "ackWindow" }),
      this.#client.readContract({ ...contract, functionName: "responseWindow" }),
      this.#client.readContract({ ...registry, functionName: "collateralBps" }),
    ]);
    return {
      token: await this.#readToken(token),
      minPayment,
      collateralBps: Number(bps),
      minDuration,
      maxDuration,
      ackWindow,
      responseWindow,
    };
  }

  /** ERC-20 leaves both optional: a token without them still pays. */
  async #readToken(address: Address): Promise<TokenUnit> {
    const contract = { address, abi: erc20Abi } as const;
    const ifSaid = (error: unknown): undefined => {
      if (chainUnavailableIn(error) !== undefined) throw error;
      return undefined;
    };
    const [symbol, decimals] = await Promise.all([
      this.#client.readContract({ ...contract, functionName: "symbol" }).catch(ifSaid),
      this.#client.readContract({ ...contract, functionName: "decimals" }).catch(ifSaid),
    ]);
    return { address, symbol, decimals };
  }

  /** Money of the wallet in the escrow, in wei. */
  async account(): Promise<{ readonly free: bigint; readonly locked: bigint }> {
    return await this.#client.readContract({
      address: this.#escrow,
      abi: jobEscrowAbi,
      functionName: "accountOf",
      args: [this.#queue.address],
    });
  }

  async jobOf(jobId: Hex): Promise<JobOnChain> {
    const job = await this.#client.readContract({
      address: this.#escrow,
      abi: jobEscrowAbi,
      functionName: "jobOf",
      args: [jobId],
    });
    return {
      status: jobStatusNames[job.status] ?? "None",
      provider: job.provider,
      since: job.since,
      deadline: job.deadline,
    };
  }

  /**
   * What the job's `JobCompleted` says; undefined when there is none. Rejects when the node cannot tell.
   * @param postBlock Block of its post; where that is not known only recent blocks are searched.
   */
  async completionOf(
    jobId: Hex,
    postBlock: number | undefined,
  ): Promise<{ readonly payment: bigint; readonly usage: Usage; readonly transactionHash: Hex } | undefined> {
    const head = await this.#client.getBlockNumber({ cacheTime: 0 });
    return await searchEvent({
      from: postBlock === undefined ? recent(head) : BigInt(postBlock),
      to: head,
      newestFirst: postBlock === undefined,
      ask: async (fromBlock, toBlock) => {
        const [log] = await this.#client.getContractEvents({
          address: this.#escrow,
          abi: jobEscrowAbi,
          eventName: "JobCompleted",
          args: { jobId },
          fromBlock,
          toBlock,
          strict: true,
        });
        if (log === undefined) return undefined;
        const { payment, inputTokens, outputTokens } = log.args;
        return {
          payment,
          usage: { inputTokens: Number(inputTokens), outputTokens: Number(outputTokens) },
          transactionHash: log.transactionHash,
        };
      },
    });
  }

  /** Posts a job to the best of the plan's candidates that can take it. Rejects only when the queue is closed. */
  async post(request: PostRequest): Promise<PostOutcome> {
    const { plan } = request;
    const candidates = plan.candidates.map(({ provider }) => provider);
    const data = encodeFunctionData({
      abi: jobEscrowAbi,
      functionName: "postJobAny",
      args: [
        candidates,
        {
          nonce: request.nonce,
          modelKey: modelKeyOf(plan.modelId),
          maxPayment: plan.maxPayment,
          unsignedLimit: plan.unsignedLimit,
          maxInputPrice: plan.maxInputPrice,
          maxOutputPrice: plan.maxOutputPrice,
          deadline: request.deadline,
        },
      ],
    });
    const outcome = await this.#queue.submit({
      key: request.key,
      to: this.#escrow,
      data,
      kind: "postJobAny",
      sendWithinMs: request.sendWithinMs,
      answerWithinMs: request.answerWithinMs,
    });
    const jobId = this.jobIdOf(request.nonce);
    if (outcome.status === "reverted" && outcome.errorName === "JobAlreadyPosted") {
      return (await this.#postedBefore(jobId)) ?? postOutcome(outcome, candidates, jobId);
    }
    return postOutcome(outcome, candidates, jobId);
  }

  /** The post of a job that the chain has although its transaction was taken for lost: a node that lags shows it late. */
  async #postedBefore(jobId: Hex): Promise<PostOutcome | undefined> {
    try {
      const head = await this.#client.getBlockNumber({ cacheTime: 0 });
      return await searchEvent<PostOutcome>({
        from: recent(head),
        to: head,
        newestFirst: true,
        ask: async (fromBlock, toBlock) => {
          const [log] = await this.#client.getContractEvents({
            address: this.#escrow,
            abi: jobEscrowAbi,
            eventName: "JobPosted",
            args: { jobId },
            fromBlock,
            toBlock,
            strict: true,
          });
          if (log === undefined) return undefined;
          const { transactionHash, blockNumber } = log;
          return { kind: "posted", provider: log.args.provider, transactionHash, blockNumber: Number(blockNumber) };
        },
      });
    } catch {
      return undefined;
    }
  }

  /** What became of a post that nobody waits for any more; undefined when it was never handed over. */
  async outcomeOfPost(
    key: string,
    candidates: readonly Address[],
    jobId: Hex,
  ): Promise<PostOutcome | { readonly kind: "pending" } | undefined> {
    if (this.#queue.isPending(key)) return { kind: "pending" };
    const outcome = await this.#queue.outcomeOf(key);
    return outcome === undefined ? undefined : postOutcome(outcome, candidates, jobId);
  }

  async requestCancel(key: string, jobId: Hex): Promise<TransactionOutcome> {
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "requestCancel", args: [jobId] });
    return await this.#queue.submit({ key, to: this.#escrow, data, kind: "requestCancel" });
  }

  async finalizeCancel(key: string, jobId: Hex): Promise<TransactionOutcome> {
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "finalizeCancel", args: [jobId] });
    return await this.#queue.submit({ key, to: this.#escrow, data, kind: "finalizeCancel" });
  }

  /** Expires what is due of some jobs, and returns which of them the transaction has ended. Rejects when it was not mined or reverted. */
  async expire(key: string, jobIds: readonly Hex[]): Promise<ReadonlySet<Hex>> {
    const data = encodeFunctionData({ abi: jobEscrowAbi, functionName: "expireJobs", args: [jobIds] });
    // A node estimates on a block that may be before the deadline, where the jobs are skipped for a fraction of the gas: their part
    // is added. The rest is the node's word, as some chains charge the data of a transaction in gas.
    const call = { account: this.#queue.address, to: this.#escrow, data } as const;
    const skipping = await this.#client.estimateGas(call);
    const gas = (skipping > expiryGas ? skipping : expiryGas) + expiryGasPerJob * BigInt(jobIds.length);
    const outcome = await this.#queue.submit({ key, to: this.#escrow, data, kind: "expireJobs", gas });
    if (outcome.status !== "success") throw new Error(outcome.message);
    const ended = parseEventLogs({ abi: jobEscrowAbi, eventName: "JobExpired", logs: outcome.receipt.logs });
    return new Set(ended.map(({ args }) => args.jobId));
  }

  /** What a transaction costs now, in wei per gas. */
  async gasPrice(): Promise<bigint> {
    return await this.#client.getGasPrice();
  }

  async slash(key: string, jobId: Hex, requestHash: Hex, acknowledgement: Hex): Promise<TransactionOutcome> {
    const data = encodeFunctionData({
      abi: jobEscrowAbi,
      functionName: "slashJob",
      args: [jobId, requestHash, acknowledgement],
    });
    return await this.#queue.submit({ key, to: this.#escrow, data, kind: "slashJob" });
  }
}

function postOutcome(outcome: TransactionOutcome, candidates: readonly Address[], jobId: Hex): PostOutcome {
  if (outcome.status === "abandoned")
    return { kind: "abandoned", message: outcome.message, undecided: outcome.undecided };
  if (outcome.status === "success") {
    const posted = parseEventLogs({ abi: jobEscrowAbi, eventName: "JobPosted", logs: outcome.receipt.logs }).find(
      (log) => log.args.jobId === jobId,
    );
    if (posted === undefined)
      return { kind: "failed", errorName: "NoJobPosted", message: "the receipt holds no JobPosted" };
    return {
      kind: "posted",
      provider: posted.args.provider,
      transactionHash: outcome.hash,
      blockNumber: Number(outcome.receipt.blockNumber),
    };
  }
  return revertedPost(outcome, candidates);
}

function revertedPost(
  outcome: Extract<TransactionOutcome, { status: "reverted" }>,
  candidates: readonly Address[],
): PostOutcome {
  const { errorName, errorArgs: args, message } = outcome;
  switch (errorName) {
    case "NoProviderAvailable": {
      const refusals = (Array.isArray(args[0]) ? args[0] : []) as readonly unknown[];
      return {
        kind: "refused",
        refusals: new Map(
          candidates.map((provider, index) => [provider, passingRefusals[Number(refusals[index] ?? 0)] ?? "unable"]),
        ),
      };
    }
    case "ProviderAtCapacity":
      return { kind: "refused", refusals: new Map(candidates.map((provider) => [provider, "full"])) };
    case "InsufficientBalance":
      return {
        kind: "insufficient_balance",
        free: amountOf(args[1]),
        required: amountOf(args[2]),
      };
    case "DeadlineOutOfBounds":
      return { kind: "bad_deadline", earliest: Number(args[1] ?? 0), latest: Number(args[2] ?? 0) };
    default:
      return { kind: "failed", errorName, message };
  }
}

function amountOf(value: unknown): bigint {
  return typeof value === "bigint" || typeof value === "number" ? BigInt(value) : 0n;
}
