import { join } from "node:path";
import type { Address } from "viem";
import type { Journal } from "../store/journal.ts";
import { openSqliteJournal } from "../store/sqlite-journal.ts";
import { type ChainPort, GatewayChain, type GatewayChainOptions } from "./chain/gateway-chain.ts";
import { reloadPolicies } from "./configured-policies.ts";
import type { GatewayParts } from "./gateway-parts.ts";
import { GatewayServer } from "./gateway-server.ts";
import { buildServices, type GatewayLife, type GatewayServices } from "./gateway-services.ts";
import { applyJobEvent } from "./jobs/chain-events.ts";
import { recallFaults } from "./jobs/past-faults.ts";
import { describeError } from "./ops/log.ts";
import { type ReachedChain, reachChain } from "./reached-chain.ts";
import { takeSnapshot } from "./snapshot-readers.ts";

/** After the drain time, how long receipts may still take. */
const lastReceiptsMs = 5000;

/** One gateway: its life from start to drain. */
export class Gateway {
  readonly #parts: GatewayParts;
  readonly #journal: Journal;
  readonly #services: GatewayServices;
  readonly #server: GatewayServer;
  #chain: ChainPort | undefined;
  /** Undefined until the chain was reached. */
  #reached: ReachedChain | undefined;
  #closing: Promise<void> | undefined;
  #fatal: string | undefined;
  #journalFault: string | undefined;

  private constructor(parts: GatewayParts, journal: Journal) {
    this.#parts = parts;
    this.#journal = journal;
    const life: GatewayLife = {
      chain: () => this.#chain,
      context: () => this.#reached?.context,
      notReady: () => this.notReady(),
    };
    this.#services = buildServices(parts, journal, life);
    this.#server = new GatewayServer(parts, this.#services, journal, life);
  }

  /** Opens journal and port, then makes a first attempt at the chain. */
  static async start(parts: GatewayParts): Promise<Gateway> {
    let gateway: Gateway | undefined;
    const path = join(parts.settings.chain.dataDir, "gateway.sqlite");
    const onLost = (error: Error): void => gateway?.journalLost(error);
    const journal = parts.journal ?? (await openSqliteJournal(path, { onLost }));
    try {
      gateway = new Gateway(parts, journal);
      await gateway.#open();
      return gateway;
    } catch (error) {
      if (gateway === undefined) await journal.close();
      else await gateway.#release();
      throw error;
    }
  }

  get url(): string {
    return this.#server.url;
  }

  get metricsUrl(): string | undefined {
    return this.#server.metricsUrl;
  }

  get wallet(): Address {
    return this.#services.account.address;
  }

  notReady(): string | undefined {
    if (this.#services.service.draining) return "draining";
    if (this.#journalFault !== undefined) return this.#journalFault;
    if (this.#fatal !== undefined) return this.#fatal;
    return this.#chain === undefined ? "starting" : this.#chain.notReady();
  }

  /** Without its journal it could promise money that the next process would not know of. */
  journalLost(error: Error): void {
    this.#journalFault = `the journal is lost: ${error.message}`;
    this.#parts.logger.fatal({ error: describeError(error) }, "the journal is lost");
    this.#parts.onFatal?.(error);
  }

  /** Reads the policy file again; a faulty one changes nothing. Streams that run keep the policy they began with. */
  reload(): void {
    const { settings, logger } = this.#parts;
    if (settings.routingFile === undefined) return;
    try {
      reloadPolicies(this.#services.policies, settings.routingFile);
      logger.info("the routing policies were read again");
    } catch (error) {
      this.#services.report.fault("routing_file", error);
    }
  }

  async close(drainMs = this.#parts.settings.drainMs): Promise<void> {
    this.#closing ??= this.#drainAndStop(drainMs);
    await this.#closing;
  }

  async #open(): Promise<void> {
    const { settings, clock, random, logger, openChain } = this.#parts;
    const restored = await this.#services.store.restore();
    if (restored > 0) logger.info({ jobs: restored }, "jobs of an earlier process are taken up");
    this.#services.pruner.start();
    await recallFaults(this.#journal, this.#services.statistics, clock.now());
    await this.#server.open();
    const open = openChain ?? (async (options: GatewayChainOptions) => await GatewayChain.open(options));
    this.#chain = await open({
      settings: settings.chain,
      escrowTarget: settings.escrowTarget,
      reputationHalfLifeSeconds: settings.reputationHalfLifeSeconds,
      journal: this.#journal,
      clock,
      random,
      onPublished: (published, delta) => takeSnapshot(this.#services, published, delta),
      onJobEvent: (event) => {
        this.#reached?.posts.observe(event);
        applyJobEvent(this.#services.store, event, this.#services.report.jobEnded);
      },
      onReady: () => {
        // Before `open` has returned there is nothing to be ready yet.
        if (this.#chain !== undefined) this.#chainReady(this.#chain);
      },
      onFault: (where, error) => this.#services.report.fault(where, error),
      onWrongChain: (error) => {
        this.#fatal = error.message;
        logger.fatal({ error: error.message }, "the chain is not the configured one");
        this.#parts.onFatal?.(error);
      },
    });
    this.#chainReady(this.#chain);
    logger.info({ url: this.url, wallet: this.wallet, notReady: this.notReady() }, "gateway started");
  }

  /** The chain was reached for the first time: from here on requests can be served. */
  #chainReady(chain: ChainPort): void {
    const { services } = chain;
    if (services === undefined || this.#reached !== undefined) return;
    this.#fatal = undefined;
    this.#reached = reachChain(this.#parts, this.#services, chain, services);
    this.#reached.janitor.start();
  }

  async #drainAndStop(drainMs: number): Promise<void> {
    const { logger } = this.#parts;
    logger.info({ running: this.#services.service.running }, "draining");
    this.#services.service.drain();
    this.#services.lines.drain();
    await this.#within(drainMs, async () => await this.#services.service.idle());
    this.#services.service.cancelAll();
    await this.#within(Math.min(lastReceiptsMs, drainMs), async () => {
      await this.#services.service.idle();
      await this.#services.settlement.idle();
    });
    const left = this.#services.store.openCount;
    if (left > 0) logger.info({ jobs: left }, "jobs stay in the journal for the next start");
    await this.#release();
    logger.info("stopped");
  }

  /** Stops everything at once, whatever was started, and whatever of it fails: what is left open would hold the process and its ports. */
  async #release(): Promise<void> {
    const { pruner, follower, service, settlement, connections, store } = this.#services;
    const janitor = this.#reached?.janitor;
    const faults: unknown[] = [];
    const step = async (work: () => unknown): Promise<void> => {
      try {
        await work();
      } catch (error) {
        faults.push(error);
      }
    };
    await step(() => pruner.stop());
    janitor?.stop();
    follower.close();
    service.drain();
    service.cancelAll();
    const closed = step(() => this.#server.close());
    await step(() => this.#chain?.close());
    await step(() => this.#server.destroy());
    await closed;
    settlement.stop();
    await step(() => connections.close());
    // Only now: what it waits for, a block or a provider, ends with the queue and the connections.
    await step(() => janitor?.idle());
    await step(() => settlement.idle());
    await step(() => store.idle());
    await step(() => this.#journal.close());
    if (faults.length > 0) throw faults[0];
  }

  async #within(ms: number, work: () => Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#parts.clock.after(ms, resolve);
    try {
      await Promise.race([work(), promise]);
    } finally {
      cancel();
    }
  }
}
