import type { Address, Hex, LocalAccount, PublicClient } from "viem";
import { bindJournal } from "../../chain/journal-binding.ts";
import { openTransactionQueue, type RunningTransactionQueue } from "../../chain/transactions/queue.ts";
import type { TransactionRequest } from "../../chain/transactions/types.ts";
import { verifyChain } from "../../chain/verify.ts";
import type { Clock, Random } from "../../protocol/clock.ts";
import { accountFromKey } from "../../protocol/signing.ts";
import type { Journal } from "../../store/journal.ts";
import { JobEventFollower } from "../escrow/event-follower.ts";
import { escrowJobReader, type JobReader } from "../escrow/job-reader.ts";
import type { LiveJobs } from "../jobs/live-jobs.ts";
import type { ProviderMetrics } from "../metrics.ts";
import { Heartbeat, heartbeatInterval } from "../registration/heartbeat.ts";
import type { MarketWatch } from "../registration/market-watch.ts";
import type { WantedPublication } from "../registration/plan.ts";
import { publicationPrefix } from "../registration/publication-calls.ts";
import { PublicationLoop } from "../registration/publication-loop.ts";
import { type Published, Publisher } from "../registration/publisher.ts";
import { RegistryReader } from "../registration/registry-reader.ts";
import type { ProviderSettings } from "../settings/provider-settings.ts";
import { ChainEvents } from "../settlement/chain-events.ts";
import { EndCheck } from "../settlement/end-check.ts";
import type { JobBook } from "../settlement/job-book.ts";
import { LostEnds, recoverStreams } from "../settlement/recover.ts";
import { Settler } from "../settlement/settler.ts";
import { ProviderSigner } from "../signer.ts";
import type { NodeLog } from "./log.ts";
import { openMarketWatch, reportFewerSlots, reportMissingSlots } from "./market-alarms.ts";
import { Reconciliation } from "./reconciliation.ts";

/** What the chain side needs of the node. */
export interface ChainSideOptions {
  readonly settings: ProviderSettings;
  readonly client: PublicClient;
  readonly journal: Journal;
  readonly book: JobBook;
  readonly live: LiveJobs;
  /** Whether a stream has ended whose end the journal has not taken yet. */
  readonly isEnding: (jobId: Hex) => boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: NodeLog;
  readonly metrics: ProviderMetrics;
  /** What to publish, without the parts that the key decides. */
  readonly wanted: () => Pick<WantedPublication, "endpoint" | "maxConcurrentJobs" | "offerings">;
  readonly isHealthy: () => boolean;
  readonly isDraining: () => boolean;
  /** Called when the node's publication, or what stands in its way, may have changed. */
  readonly onPublication: () => void;
  readonly crashPoint?: (point: string, key: string) => void;
}

/** All of a node that needs the chain: its identity, publication, heartbeat, events and settlement. */
export class ChainSide {
  readonly #options: ChainSideOptions;
  readonly owner: Address;
  readonly signer: ProviderSigner;
  readonly reader: JobReader;
  readonly markets: MarketWatch;
  readonly #queue: RunningTransactionQueue;
  readonly #publisher: Publisher;
  readonly #publication: PublicationLoop;
  readonly #heartbeat: Heartbeat;
  readonly #reconciliation: Reconciliation;
  readonly #follower: JobEventFollower;
  readonly #settler: Settler;
  #published: Published | undefined;
  #publicationError: string | undefined;

  private constructor(options: ChainSideOptions, parts: ChainParts) {
    this.#options = options;
    const { settings, client, journal, book, live, clock, random, log, metrics } = options;
    const { target, pollMs } = settings.chain;
    const { owner, queue, registry, rules, deployedAtBlock } = parts;
    this.owner = owner;
    this.#queue = queue;
    this.signer = new ProviderSigner(parts.account, { chainId: target.chainId, escrow: target.escrow }, owner);
    this.reader = escrowJobReader(client, target.escrow);
    this.#publisher = new Publisher({
      reader: registry,
      queue,
      chainId: target.chainId,
      registry: target.registry,
      owner,
      rules,
      earlier: parts.earlier,
    });
    this.#publication = new PublicationLoop({
      publisher: this.#publisher,
      wanted: () => ({
        ...options.wanted(),
        operator: queue.address,
        payout: settings.payout ?? owner,
        stake: settings.stake,
        reactivate: settings.reactivate,
      }),
      clock,
      random,
      onPublished: (published) => this.#onPublished(published),
      onError: (error) => this.#onPublicationError(error),
    });
    this.#heartbeat = new Heartbeat({
      reader: registry,
      queue,
      chainId: target.chainId,
      registry: target.registry,
      owner,
      clock,
      intervalMs: heartbeatInterval(settings.heartbeatIntervalMs, rules.timeToLive),
      aheadMs: () => this.aheadMs(),
      // A provider that no job can be given to must not look alive.
      isHealthy: () => options.isHealthy() && this.#published?.noStake === undefined,
      onBeat: () => metrics.published("heartbeat"),
      onError: (error) => log.fault("heartbeat", error),
    });
    this.#settler = new Settler({
      book,
      queue,
      reader: this.reader,
      escrow: target.escrow,
      clock,
      aheadMs: () => this.aheadMs(),
      policy: {
        receiptGraceMs: settings.receiptGraceMs,
        settleMarginSeconds: settings.settleMarginSeconds,
        unfetchedDeclineMs: settings.unfetchedDeclineMs,
      },
      batch: settings.settleBatch,
      windowMs: settings.settleWindowMs,
      events: {
        ended: (job) => {
          metrics.ended(job.stage, job.reason ?? "", BigInt(job.payment ?? "0"));
          log.info("job ended", { jobId: job.jobId, stage: job.stage, payment: job.payment, reason: job.reason });
        },
        failed: (job, reason) => {
          metrics.settlementFailed(reason);
          log.warn("a settlement had no effect", { jobId: job.jobId, error: reason, attempts: job.attempts });
        },
        unexpected: (error) => log.fault("settlement", error),
      },
    });
    const events = new ChainEvents({
      book,
      settler: this.#settler,
      queue,
      escrow: target.escrow,
      clock,
      isLive: (jobId) => live.has(jobId),
      isDraining: options.isDraining,
      onError: (error) => log.fault("ack", error),
    });
    // An end that waits for the journal knows more than the last checkpoint does.
    const isInHand = (jobId: Hex): boolean => live.has(jobId) || options.isEnding(jobId);
    const endCheck = new EndCheck({
      book,
      signer: this.signer,
      clock,
      reader: this.reader,
      queue,
      aheadMs: () => this.aheadMs(),
      isLive: isInHand,
      onReopened: (job) => {
        metrics.reopened();
        log.warn("the chain took the end of a job back", { jobId: job.jobId, stage: job.stage });
      },
    });
    this.#reconciliation = new Reconciliation({
      client,
      registry,
      escrow: target.escrow,
      owner,
      book,
      lostEnds: new LostEnds({ book, signer: this.signer, clock }, isInHand),
      endCheck,
      clock,
      log,
      block: () => this.block,
      onFewerSlots: (missing) => reportFewerSlots(log, missing),
    });
    const { chainId, escrow } = target;
    this.markets = openMarketWatch({
      client,
      journal,
      clock,
      log,
      chainId,
      registry: target.registry,
      escrow,
      deployedAtBlock,
    });
    this.#follower = new JobEventFollower({
      client,
      escrow: target.escrow,
      provider: owner,
      chainId: target.chainId,
      journal,
      clock,
      pollMs,
      firstBlock: parts.firstBlock,
      deployedAtBlock,
      onReorg: async (lastCommonBlock) => {
        log.warn("the chain was reorganised", { lastCommonBlock });
        queue.poke();
        await endCheck.endsAbove(lastCommonBlock);
      },
      onEvent: async (event) => await events.take(event),
      onMissingSlots: (missing) => reportMissingSlots(log, metrics, missing),
      onMissingSlotsError: (error) => log.fault("missing_slots", error),
      onPoll: (error) => {
        queue.poke();
        this.#settler.wake();
        if (error !== undefined) log.fault("events", error);
      },
    });
  }

  /**
   * Verifies the chain, finds out who the node is, and opens the transaction queue.
   *
   * @throws WrongChainError, or chain errors when the chain cannot be asked.
   */
  static async open(options: ChainSideOptions): Promise<ChainSide> {
    const { settings, client, journal, clock, random, log } = options;
    const { target, privateKey, pollMs, confirmations, feeBumpMs, maxFeePerGas } = settings.chain;
    const deployment = await verifyChain(client, target);
    const account = accountFromKey(privateKey);
    const { chainId, escrow } = target;
    const { dataDir } = settings.chain;
    const registry = new RegistryReader(client, target.registry);
    const rules = await registry.rules();
    const owner = settings.owner ?? (await registry.ownerOfOperator(account.address)) ?? account.address;
    // The jobs are the owner's: another operator's key must still settle them.
    await bindJournal({ journal, client, chainId, escrow, wallet: owner, dataDir });
    // Before it is known how many jobs are open: what is posted from here on must not be missed while the node publishes.
    const block = await client.getBlockNumber({ cacheTime: 0 });
    const provider = await registry.provider(owner);
    const underWay = await journal.openTransactions(account.address, target.chainId);
    const earlier = underWay
      .filter(({ key }) => key.startsWith(publicationPrefix))
      .map(({ key, to, data, kind }) => ({ key, to, data, kind }));
    const queue = await openTransactionQueue({
      client,
      account,
      chainId: target.chainId,
      journal,
      clock,
      random,
      confirmations,
      pollMs,
      stuckAfterMs: feeBumpMs,
      ...(maxFeePerGas === undefined ? {} : { feeCap: maxFeePerGas }),
      ...(options.crashPoint === undefined ? {} : { crashPoint: options.crashPoint }),
      onEvent: ({ type, ...fields }) => log.warn(`transaction ${type}`, { ...fields, key: undefined }),
    });
    // Jobs of a provider that this journal does not know of are found from their events.
    const deployedAtBlock = BigInt(deployment.deployedAtBlock);
    const firstBlock = (provider?.openJobs ?? 0) > 0 ? deployedAtBlock : block;
    return new ChainSide(options, { account, owner, queue, registry, rules, firstBlock, deployedAtBlock, earlier });
  }

  /** Publishes, recovers the journal, and goes on with events, settlement and heartbeats until closed. */
  async start(): Promise<void> {
    const { book, clock, log } = this.#options;
    await this.#publication.request();
    const recovered = await recoverStreams({ book, signer: this.signer, clock });
    if (recovered > 0) log.warn("took up streams of an earlier process", { jobs: recovered });
    await this.#follower.start();
    this.#settler.start();
    this.#heartbeat.start(this.#published?.provider.lastSeen ?? 0);
    this.markets.start();
    await this.#reconciliation.start();
  }

  /** How far chain time runs ahead of our clock, ms. */
  aheadMs(): number {
    return this.#follower.aheadMs;
  }

  /** Number of the newest block seen. */
  get block(): number | undefined {
    const number = this.#follower.head?.number;
    return number === undefined ? undefined : Number(number);
  }

  /** Open jobs on chain less those in the journal, at the last comparison. */
  get drift(): number | undefined {
    return this.#reconciliation.drift;
  }

  /** Wei that the provider has earned and not withdrawn, at the last comparison. */
  get balance(): bigint | undefined {
    return this.#reconciliation.balance;
  }

  get pendingTransactions(): number {
    return this.#queue.pending;
  }

  /** Why gateways cannot find the provider on chain or cannot give it a job; undefined when they can. */
  get unpublished(): string | undefined {
    if (this.#published === undefined) return this.#publicationError ?? "nothing is published yet";
    return this.#published.provider.active ? this.#published.noStake : "the provider is deactivated on chain";
  }

  /** Prices of one of our own offering records. */
  record(offeringId: number) {
    return this.#publisher.record(offeringId);
  }

  /** Publishes what changed; resolves after the first attempt. */
  async publish(): Promise<void> {
    await this.#publication.request();
  }

  /** Declines every posted job that was not begun, those of the last moment too. */
  async declineUnbegun(): Promise<void> {
    await this.#follower.catchUp();
    await this.#changeAll("posted", (job) => ({ ...job, stage: "declining", reason: "draining" }));
  }

  /** Claims what was delivered without waiting for receipts any longer. */
  async claimDelivered(): Promise<void> {
    await this.#changeAll("delivered", (job) => ({ ...job, claimNow: true }));
  }

  async #changeAll(stage: string, change: Parameters<JobBook["change"]>[1]): Promise<void> {
    const { book } = this.#options;
    const jobs = book.openJobs().filter((job) => job.stage === stage);
    await Promise.all(
      jobs.map(async ({ jobId }) => await book.change(jobId, (job) => (job.stage === stage ? change(job) : undefined))),
    );
  }

  /** Stops everything; what is under way stays in the journal. */
  async close(): Promise<void> {
    this.#reconciliation.stop();
    this.#settler.close();
    await this.#queue.close();
    await Promise.allSettled([
      this.#publication.stop(),
      this.markets.stop(),
      this.#heartbeat.stop(),
      this.#follower.stop(),
      this.#settler.idle(),
    ]);
  }

  #onPublished(published: Published): void {
    const { log, metrics, onPublication } = this.#options;
    const before = this.#published;
    this.#published = published;
    this.#publicationError = undefined;
    for (const warning of published.warnings) if (before?.warnings.includes(warning) !== true) log.warn(warning, {});
    for (const kind of published.transactions) metrics.published(kind);
    onPublication();
    // A look that found nothing to do while something is waited for is no news.
    if (before !== undefined && before.warnings.length > 0 && published.transactions.length === 0) return;
    log.info("published", {
      provider: this.owner,
      maxConcurrentJobs: published.provider.maxConcurrentJobs,
      models: [...published.offerings.keys()],
      transactions: published.transactions,
    });
  }

  #onPublicationError(error: unknown): void {
    this.#publicationError = error instanceof Error ? error.message : String(error);
    this.#options.log.fault("publication", error);
    this.#options.onPublication();
  }
}

/** What `open` found. */
interface ChainParts {
  readonly account: LocalAccount;
  readonly owner: Address;
  readonly queue: RunningTransactionQueue;
  readonly registry: RegistryReader;
  readonly rules: Awaited<ReturnType<RegistryReader["rules"]>>;
  /** Where events are followed from when the journal does not say it. */
  readonly firstBlock: bigint;
  readonly deployedAtBlock: bigint;
  /** Publications under way. */
  readonly earlier: readonly TransactionRequest[];
}
