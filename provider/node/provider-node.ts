import { join } from "node:path";
import type { Logger } from "pino";
import type { Address } from "viem";
import { backoffDelay } from "../../chain/backoff.ts";
import { type ChainConnection, openChain } from "../../chain/rpc.ts";
import { WrongChainError } from "../../chain/verify.ts";
import type { Clock, Random } from "../../protocol/clock.ts";
import { listenError } from "../../protocol/listen-fault.ts";
import type { Journal } from "../../store/journal.ts";
import { JournalPruner } from "../../store/journal-pruner.ts";
import { openSqliteJournal } from "../../store/sqlite-journal.ts";
import { Slots } from "../admission/slots.ts";
import { Backends } from "../upstream/backends.ts";
import type { ProbeRhythm } from "../upstream/health.ts";
import { ProviderError } from "../errors.ts";
import { openServer, type ProviderHandlers, type ProviderServer, type RunCall } from "../http/server.ts";
import { jobView } from "../jobs/job-view.ts";
import { LiveJobs } from "../jobs/live-jobs.ts";
import { StreamEnds } from "../jobs/stream-ends.ts";
import { ProviderMetrics } from "../metrics.ts";
import { type EndpointsStore, openEndpointsStore } from "../settings/endpoints-store.ts";
import type { OfferingConfig } from "../settings/endpoints-source.ts";
import type { ProviderSettings } from "../settings/provider-settings.ts";
import type { JobStage } from "../settlement/job.ts";
import { JobBook } from "../settlement/job-book.ts";
import { unsignedClaim } from "../settlement/next-step.ts";
import { type BoardEntry, StatisticsBoard } from "../statistics/statistics-board.ts";
import { ChainSide } from "./chain-side.ts";
import { drain, flushEnds } from "./drain.ts";
import { describe, type NodeLog, nodeLog } from "./log.ts";
import { type NodeServices, openServices } from "./node-services.ts";

/** What a node is given. */
export interface NodeParts {
  readonly settings: ProviderSettings;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly probeRhythm?: ProbeRhythm;
  /** Called at named places of a job's life; a kill test ends the process there. */
  readonly crashPoint?: (point: string, key: string) => void;
  /** The journal is lost: nothing can be served any more. */
  readonly onFatal?: (error: Error) => void;
}

const bringUpBackoff = { baseMs: 500, maxMs: 15_000 };
/** One provider node: its parts and their life from start to drain. */
export class ProviderNode {
  readonly #parts: NodeParts;
  readonly #journal: Journal;
  readonly #pruner: JournalPruner;
  readonly #chain: ChainConnection;
  readonly #book: JobBook;
  readonly #live = new LiveJobs();
  readonly #ends: StreamEnds;
  readonly #board = new StatisticsBoard();
  readonly #backends: Backends;
  readonly #slots: Slots;
  readonly #metrics: ProviderMetrics;
  readonly #log: NodeLog;
  #endpoints: EndpointsStore | undefined;
  #server: ProviderServer | undefined;
  #endpoint = "";
  #services: NodeServices | undefined;
  #startError: string | undefined;
  #journalFault: string | undefined;
  /** What the log last said of readiness: the reason against it, "" for ready. */
  #loggedReadiness: string | undefined;
  #cancelBringUp: () => void = () => undefined;
  #bringUpFailures = 0;
  #isDraining = false;
  #isClosing = false;

  private constructor(parts: NodeParts, journal: Journal, chain: ChainConnection) {
    this.#parts = parts;
    this.#journal = journal;
    this.#chain = chain;
    const { clock } = parts;
    this.#book = new JobBook(journal, clock);
    this.#ends = new StreamEnds({
      book: this.#book,
      clock,
      onError: (error) => this.#log.fault("journal", error),
    });
    this.#pruner = new JournalPruner({
      journal,
      clock,
      keepMs: parts.settings.chain.journalKeepMs,
      onPruned: (rows) => this.#log.info("old rows were taken out of the journal", { rows }),
      onError: (error) => this.#log.fault("journal", error),
    });
    const { crashPoint } = parts;
    if (crashPoint !== undefined) this.#book.onChange((job) => crashPoint(`job-${job.stage}`, job.jobId));
    this.#backends = new Backends({
      clock,
      mint: () => this.#mint(),
      changed: () => this.#changed(),
      ...(parts.probeRhythm === undefined ? {} : { rhythm: parts.probeRhythm }),
    });
    this.#slots = new Slots(() => ({
      total: this.#maxConcurrentJobs(),
      ofBackend: (name) => this.#endpoints?.current.backends.get(name)?.maxConcurrent ?? 0,
    }));
    this.#metrics = this.#openMetrics();
    this.#log = nodeLog(parts.logger, this.#metrics);
  }

  /** Opens journal, backends and port, then makes a first attempt at the chain. */
  static async start(parts: NodeParts): Promise<ProviderNode> {
    const { settings, clock, random } = parts;
    const { rpcUrl, rpcTimeoutMs, dataDir } = settings.chain;
    const lost = Promise.withResolvers<Error>();
    const journal = await openSqliteJournal(join(dataDir, "provider.sqlite"), { onLost: lost.resolve });
    const chain = openChain({ url: rpcUrl, clock, random, timeoutMs: rpcTimeoutMs });
    const node = new ProviderNode(parts, journal, chain);
    void lost.promise.then((error) => node.journalLost(error));
    try {
      await node.#open();
      await node.#bringUp(true);
      return node;
    } catch (error) {
      await node.#release();
      throw error;
    }
  }

  /** The provider's identity; undefined until the chain could be asked. */
  get address(): Address | undefined {
    return this.#services?.side.owner;
  }

  /** Where the node listens. */
  get url(): string {
    const { host } = this.#parts.settings;
    return `http://${host.includes(":") ? `[${host}]` : host}:${this.#server?.port ?? 0}`;
  }

  /** Where gateways are told to call. */
  get endpoint(): string {
    return this.#endpoint;
  }

  /** Why no request can be admitted now, or gateways cannot find the node; undefined when all is well. */
  notReady(): string | undefined {
    if (this.#isDraining) return "draining";
    if (this.#journalFault !== undefined) return this.#journalFault;
    if (this.#services === undefined) return this.#startError ?? "starting";
    if (!this.#isHealthy()) return "no backend works";
    return this.#services.side.unpublished;
  }

  /** Without its journal it could take jobs that the next process would not know of. */
  journalLost(error: Error): void {
    this.#journalFault = `the journal is lost: ${error.message}`;
    this.#log.fault("journal", error);
    this.#parts.onFatal?.(error);
  }

  /** Reads the endpoints file again, and looks anew at what the chain lacks. */
  async reload(): Promise<void> {
    await this.#endpoints?.reload();
    await this.#services?.side.publish();
  }

  /**
   * Drains and stops: admits nothing, gives back what was not begun, lets answers end and settles them, each within bounds. The
   * provider stays registered.
   */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#isDraining = true;
    this.#cancelBringUp();
    this.#changed();
    const { settings } = this.#parts;
    const log = this.#log;
    log.info("draining", { running: this.#live.size, open: this.#book.openJobs().length });
    const side = this.#services?.side;
    if (side !== undefined) {
      const { clock } = this.#parts;
      const { drainMs } = settings;
      await drain({ side, book: this.#book, live: this.#live, ends: this.#ends, clock, log, drainMs });
    }
    const left = this.#book.openJobs().length;
    if (left > 0) log.warn("jobs stay in the journal for the next start", { jobs: left });
    await this.#release();
  }

  // ------------------------------------------------------------------------------------------------------------- start

  async #open(): Promise<void> {
    const { settings, environment, clock } = this.#parts;
    const log = this.#log;
    await this.#book.load();
    this.#pruner.start();
    this.#endpoints = await openEndpointsStore({
      source: settings.endpoints,
      environment,
      clock,
      onChange: () => void this.#onEndpoints(),
      onFault: (error) => log.fault("endpoints", error),
    });
    await this.#backends.apply(this.#endpoints.current.backends);
    for (const { config, health } of this.#backends.all()) {
      if (health.isDown) log.warn("a backend does not work yet", { backend: config.name, reason: health.reason });
    }
    const { host, port } = settings;
    this.#server = await openServer(host, port, this.#handlers()).catch((error: unknown) => {
      throw listenError(error, { host, port, hostVariable: "T4T_PROVIDER_HOST", portVariable: "T4T_PROVIDER_PORT" });
    });
    this.#endpoint = settings.endpoint ?? this.url;
  }

  /** Asks the chain who we are and starts what needs it; tried again in the background while the chain cannot be asked. */
  async #bringUp(isFirst: boolean): Promise<void> {
    const { clock, random } = this.#parts;
    const log = this.#log;
    let side: ChainSide | undefined;
    try {
      side = await this.#openChainSide();
      await side.start();
      if (this.#isClosing) {
        await side.close();
        return;
      }
      this.#services = this.#openServices(side);
      this.#startError = undefined;
      this.#logReadiness();
    } catch (error) {
      await side?.close();
      if (isFirst && error instanceof WrongChainError) throw error;
      if (this.#isClosing) return;
      this.#startError = describe(error);
      log.fault("start", error);
      const delay = backoffDelay(this.#bringUpFailures, bringUpBackoff, random);
      this.#bringUpFailures += 1;
      this.#cancelBringUp = clock.after(delay, () => void this.#bringUp(false));
    }
  }

  async #openChainSide(): Promise<ChainSide> {
    const { settings, clock, random, crashPoint } = this.#parts;
    const log = this.#log;
    return await ChainSide.open({
      settings,
      client: this.#chain.client,
      journal: this.#journal,
      book: this.#book,
      live: this.#live,
      isEnding: (jobId) => this.#ends.isWaiting(jobId),
      clock,
      random,
      log,
      metrics: this.#metrics,
      wanted: () => ({
        endpoint: this.#endpoint,
        maxConcurrentJobs: this.#maxConcurrentJobs(),
        offerings: this.#offerings(),
      }),
      isHealthy: () => this.#isHealthy(),
      isDraining: () => this.#isDraining,
      onPublication: () => this.#logReadiness(),
      ...(crashPoint === undefined ? {} : { crashPoint }),
    });
  }

  #openServices(side: ChainSide): NodeServices {
    const { settings, clock } = this.#parts;
    return openServices({
      settings,
      chain: this.#chain.client,
      side,
      book: this.#book,
      live: this.#live,
      ends: this.#ends,
      slots: this.#slots,
      board: this.#board,
      backends: this.#backends,
      metrics: this.#metrics,
      log: this.#log,
      clock,
      offeringOf: (model) => this.#offerings().get(model),
      boardEntryOf: (offering) => this.#boardEntry(offering),
      statusContent: () => this.#statusContent(),
      isDraining: () => this.#isDraining,
      changed: () => this.#changed(),
    });
  }

  // --------------------------------------------------------------------------------------------------------------- http

  #handlers(): ProviderHandlers {
    return {
      precheck: (headers) => this.#up().admission.precheck(headers),
      run: async (call) => await this.#run(call),
      job: async (jobId) => {
        const job = await this.#book.get(jobId);
        return job === undefined ? undefined : JSON.stringify(jobView(job));
      },
      receipt: async (jobId, text) => JSON.stringify(jobView(await this.#up().desk.take(jobId, text))),
      status: () => this.#up().status,
      notReady: () => this.notReady(),
      metrics: async () => await this.#metrics.registry.metrics(),
      mint: () => this.#mint(),
      refused: (error) => {
        if (error instanceof ProviderError) this.#metrics.refused(error.code);
        else this.#log.fault("request", error);
      },
    };
  }

  async #run({ headers, body, path, requestId, response, signal }: RunCall): Promise<void> {
    const { admission, runner } = this.#up();
    const admitted = await admission.admit(headers, body, signal);
    await runner.run(admitted, { response, path, requestId });
  }

  #up(): NodeServices {
    if (this.#isDraining && this.#services === undefined) {
      throw new ProviderError("provider_draining", "the provider is shutting down");
    }
    if (this.#services === undefined) {
      throw new ProviderError("chain_unavailable", "the provider is starting or cannot reach its chain");
    }
    return this.#services;
  }

  // -------------------------------------------------------------------------------------------------------------- state

  #offerings(): ReadonlyMap<string, OfferingConfig> {
    return this.#endpoints?.current.offerings ?? new Map();
  }

  #maxConcurrentJobs(): number {
    return this.#endpoints?.current.maxConcurrentJobs ?? this.#parts.settings.maxConcurrentJobs;
  }

  #isHealthy(): boolean {
    for (const backend of this.#backends.all()) if (backend.health.isHealthy) return true;
    return false;
  }

  #boardEntry(offering: OfferingConfig): BoardEntry {
    const backend = this.#backends.get(offering.backend);
    return {
      model: offering.model,
      backendModel: offering.backendModel,
      backendGeneration: backend?.generation ?? "none",
      initialInputTps: backend?.config.initialInputTps,
      clusterId: backend?.config.clusterId,
      kvFreeTokens: backend?.kvFreeTokens,
    };
  }

  #models() {
    return this.#board.read([...this.#offerings().values()].map((offering) => this.#boardEntry(offering)));
  }

  #statusContent() {
    return {
      draining: this.#isDraining,
      maxConcurrentJobs: this.#maxConcurrentJobs(),
      running: this.#slots.running,
      models: this.#models(),
    };
  }

  #changed(): void {
    this.#services?.status.changed();
    this.#logReadiness();
  }

  /** Says that the node is ready, or why not, whenever that has changed since it was first brought up. */
  #logReadiness(): void {
    const side = this.#services?.side;
    if (side === undefined || this.#isDraining) return;
    const reason = this.notReady() ?? "";
    if (reason === this.#loggedReadiness) return;
    this.#loggedReadiness = reason;
    const fields = { provider: side.owner, url: this.url, endpoint: this.#endpoint };
    if (reason === "") this.#log.info("ready to serve", fields);
    else this.#log.warn("started, but not ready to serve", { ...fields, reason });
  }

  async #onEndpoints(): Promise<void> {
    const log = this.#log;
    const config = this.#endpoints?.current;
    if (config === undefined || this.#isClosing) return;
    log.info("the endpoints changed", {
      models: [...config.offerings.keys()],
      maxConcurrentJobs: this.#maxConcurrentJobs(),
    });
    await this.#backends.apply(config.backends);
    this.#changed();
    await this.#services?.side.publish();
  }

  #mint(): string {
    return Math.floor(this.#parts.random() * 2 ** 48)
      .toString(36)
      .padStart(10, "0");
  }

  #openMetrics(): ProviderMetrics {
    return new ProviderMetrics({
      models: () => this.#models(),
      running: () => this.#slots.running,
      maxConcurrentJobs: () => this.#maxConcurrentJobs(),
      backends: () =>
        [...this.#backends.all()].map(({ config, health }) => ({ name: config.name, isUp: health.isHealthy })),
      jobsByStage: () => {
        const counts = new Map<JobStage, number>();
        for (const { stage } of this.#book.openJobs()) counts.set(stage, (counts.get(stage) ?? 0) + 1);
        return counts;
      },
      claimable: () => this.#book.openJobs().reduce((sum, job) => sum + unsignedClaim(job), 0n),
      pendingTransactions: () => this.#services?.side.pendingTransactions ?? 0,
      isReady: () => this.notReady() === undefined,
      drift: () => this.#services?.side.drift,
      balance: () => this.#services?.side.balance,
      chainBlock: () => this.#services?.side.block,
      proposedMarkets: () => this.#services?.side.markets.pending?.length,
      marketAllowableFrom: () => this.#services?.side.markets.allowableFrom,
    });
  }

  // --------------------------------------------------------------------------------------------------------------- end

  async #release(): Promise<void> {
    this.#isClosing = true;
    await this.#pruner.stop();
    this.#cancelBringUp();
    await flushEnds(this.#ends, this.#parts.clock, this.#log);
    this.#ends.stop();
    this.#endpoints?.close();
    this.#services?.status.close();
    await this.#services?.side.close();
    await this.#server?.close();
    await this.#backends.close();
    await this.#chain.close();
    await this.#journal.close();
  }
}
