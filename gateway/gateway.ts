import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Address, LocalAccount } from "viem";
import type { Published, RegistryDelta } from "../chain/registry-index/types.ts";
import type { Clock, Random } from "../protocol/clock.ts";
import { T4tError } from "../protocol/errors.ts";
import { listenError } from "../protocol/listen-fault.ts";
import type { MessageDomain } from "../protocol/messages.ts";
import { accountFromKey } from "../protocol/signing.ts";
import type { Journal } from "../store/journal.ts";
import { JournalPruner } from "../store/journal-pruner.ts";
import { openSqliteJournal } from "../store/sqlite-journal.ts";
import { CapacityLines } from "./capacity/capacity-lines.ts";
import { type ChainPort, GatewayChain, type GatewayChainOptions } from "./chain/gateway-chain.ts";
import { ApiKeys } from "./http/api-keys.ts";
import { type HttpExchange, type HttpServer, type RouteHandler, startHttpServer } from "./http/http-server.ts";
import { sendBytes, sendJson } from "./http/respond.ts";
import type { RouteName } from "./http/router.ts";
import { applyJobEvent, type JobEndListener } from "./jobs/chain-events.ts";
import type { EscrowPolicy } from "./jobs/escrow-plan.ts";
import { GatewayStatistics } from "./jobs/gateway-statistics.ts";
import { Janitor } from "./jobs/janitor.ts";
import { cancelJob, getJob, getJobEvents, type JobRouteOptions, listJobs, postJob } from "./jobs/job-routes.ts";
import { JobService } from "./jobs/job-service.ts";
import { JobStore } from "./jobs/job-store.ts";
import { recallFaults } from "./jobs/past-faults.ts";
import { ProviderDesk } from "./jobs/provider-desk.ts";
import { chainUnavailableError } from "./jobs/request-errors.ts";
import type { RequestContext } from "./jobs/request-context.ts";
import { anyModelLine, type Grant } from "./jobs/selection.ts";
import { Settlement } from "./jobs/settlement.ts";
import { SightedPosts } from "./jobs/sighted-posts.ts";
import { answerCompletion, type CompletionRouteOptions } from "./openai/completion-routes.ts";
import { findModel, listModels, priceUnitOf } from "./openai/model-list.ts";
import { describeError } from "./ops/log.ts";
import { GatewayMetrics } from "./ops/metrics.ts";
import type { PolicyConfig } from "./routing/policy-config.ts";
import { PolicyHolder, readPolicyFile, type RoutingPolicies } from "./routing/policy-file.ts";
import type { RoutingState } from "./routing/state.ts";
import { statisticsGauges } from "./routing/statistics/metrics.ts";
import { StatusFollower } from "./routing/status-follower.ts";
import type { PolicyName } from "./routing/types.ts";
import type { GatewaySettings } from "./settings.ts";
import { ProviderConnections } from "./upstream/connections.ts";
import { parseEndpoint } from "./upstream/endpoint.ts";
import type { Resolve } from "./upstream/guarded-lookup.ts";
import { GuardedStatusTransport } from "./upstream/status-transport.ts";

/** What a gateway is made of. */
export interface GatewayParts {
  readonly settings: GatewaySettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly janitorMs: number;
  readonly journal: Journal | undefined;
  readonly openChain: ((options: GatewayChainOptions) => Promise<ChainPort>) | undefined;
  readonly resolve: Resolve | undefined;
  readonly onFatal: ((error: Error) => void) | undefined;
}

const statementTimeoutMs = 5000;
const deskTimeoutMs = 10_000;
const maxAttempts = 8;
/** After the drain time, how long receipts may still take. */
const lastReceiptsMs = 5000;

/** One gateway: its parts and their life from start to drain. */
export class Gateway {
  readonly #parts: GatewayParts;
  readonly #journal: Journal;
  readonly #store: JobStore;
  readonly #statistics: GatewayStatistics;
  readonly #connections: ProviderConnections;
  readonly #lines: CapacityLines<Grant>;
  readonly #service: JobService;
  readonly #settlement: Settlement;
  readonly #metrics: GatewayMetrics;
  readonly #desk: ProviderDesk;
  readonly #follower: StatusFollower;
  readonly #policies: PolicyHolder;
  readonly #account: LocalAccount;
  readonly #modelsSince: number;
  #chain: ChainPort | undefined;
  #janitor: Janitor | undefined;
  #posts: SightedPosts | undefined;
  #server: HttpServer | undefined;
  #metricsServer: HttpServer | undefined;
  readonly #pruner: JournalPruner;
  #context: RequestContext | undefined;
  #closing: Promise<void> | undefined;
  #fatal: string | undefined;
  #journalFault: string | undefined;

  private constructor(parts: GatewayParts, journal: Journal) {
    const { settings, clock, logger } = parts;
    this.#parts = parts;
    this.#journal = journal;
    this.#modelsSince = Math.floor(clock.now() / 1000);
    this.#account = accountFromKey(settings.chain.privateKey);
    this.#policies = new PolicyHolder(policiesOf(settings));
    this.#statistics = new GatewayStatistics(clock, settings.reputationHalfLifeSeconds * 1000, (provider, endpoint) =>
      this.#endpointRefused(provider, endpoint),
    );
    this.#connections = new ProviderConnections({
      allowPrivate: settings.allowPrivateEndpoints,
      connectTimeoutMs: settings.connectTimeoutMs,
      ...(parts.resolve === undefined ? {} : { resolve: parts.resolve }),
    });
    this.#lines = new CapacityLines({ clock, maxWaiting: settings.maxWaiting, pollMs: settings.waitPollMs });
    this.#store = new JobStore({
      journal,
      clock,
      onSaveError: (error) => this.#fault("journal", error),
    });
    this.#desk = new ProviderDesk({
      connections: this.#connections,
      allowPrivate: settings.allowPrivateEndpoints,
      timeoutMs: deskTimeoutMs,
    });
    this.#settlement = new Settlement({
      account: this.#account,
      domain: this.#domain,
      desk: this.#desk,
      clock,
      endpointOf: (provider) => this.#chain?.published()?.snapshot.provider(provider)?.endpoint,
      onDisagreement: (provider, kind) => {
        this.#metrics.disagreement(kind);
        logger.warn({ provider, kind }, "a provider's usage statement does not hold");
      },
      onReceipt: (outcome) => this.#metrics.receipt(outcome),
    });
    this.#service = new JobService({
      context: () => this.#context,
      store: this.#store,
      clock,
      policies: () => this.#policies.current,
      waitLimitMs: settings.waitLimitMs,
      deadlineSeconds: settings.deadlineSeconds,
      onFinished: (record, tookMs) => {
        const { outcome, kind, attempts } = record.document;
        const delivering = attempts.findLast(({ receipt }) => receipt !== undefined);
        const errorType = outcome?.status === "completed" ? "" : (outcome?.code ?? outcome?.status ?? "");
        this.#metrics.completed(
          attempts.at(-1)?.modelId,
          kind === "chat" ? "chat" : "text_completion",
          errorType,
          tookMs,
        );
        logger.info(
          {
            jobId: record.id,
            requestId: record.document.requestId,
            model: record.document.model,
            provider: delivering?.provider,
            outcome: outcome?.status,
            code: outcome?.code,
            jobs: attempts.length,
            ...delivering?.usage,
            tookMs: Math.round(tookMs),
          },
          "request ended",
        );
      },
    });
    this.#pruner = new JournalPruner({
      journal,
      clock,
      keepMs: settings.chain.journalKeepMs,
      onPruned: (rows) => logger.info({ rows }, "old rows were taken out of the journal"),
      onError: (error) => this.#fault("journal", error),
    });
    this.#follower = this.#openFollower();
    this.#metrics = this.#openMetrics();
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
    return this.#server?.url ?? "";
  }

  get metricsUrl(): string | undefined {
    return this.#metricsServer?.url;
  }

  get wallet(): Address {
    return this.#account.address;
  }

  notReady(): string | undefined {
    if (this.#service.draining) return "draining";
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
      this.#policies.reload(readFileSync(settings.routingFile, "utf8"));
      logger.info("the routing policies were read again");
    } catch (error) {
      this.#fault("routing_file", error);
    }
  }

  async close(drainMs = this.#parts.settings.drainMs): Promise<void> {
    this.#closing ??= this.#drainAndStop(drainMs);
    await this.#closing;
  }

  // ------------------------------------------------------------------------------------------------------------- start

  async #open(): Promise<void> {
    const { settings, clock, random, logger, openChain } = this.#parts;
    const restored = await this.#store.restore();
    if (restored > 0) logger.info({ jobs: restored }, "jobs of an earlier process are taken up");
    this.#pruner.start();
    await recallFaults(this.#journal, this.#statistics, clock.now());
    this.#server = await startHttpServer({
      host: settings.host,
      port: settings.port,
      keys: new ApiKeys(settings.apiKeys),
      guardPages: settings.apiKeys.length === 0 && !settings.allowUnauthenticated,
      maxBodyBytes: settings.maxBodyBytes,
      clock,
      handlers: this.#handlers(),
      mintRequestId: () => `req_${randomBytes(12).toString("hex")}`,
      onAnswer: (exchange, route, error, tookMs) => this.#answered(exchange, route, error, tookMs),
    }).catch(listenFailed(settings.host, settings.port, "T4T_GATEWAY_PORT"));
    if (settings.metricsPort !== undefined) this.#metricsServer = await this.#openMetricsServer(settings.metricsPort);
    const open = openChain ?? (async (options: GatewayChainOptions) => await GatewayChain.open(options));
    this.#chain = await open({
      settings: settings.chain,
      escrowTarget: settings.escrowTarget,
      reputationHalfLifeSeconds: settings.reputationHalfLifeSeconds,
      journal: this.#journal,
      clock,
      random,
      onPublished: (published, delta) => this.#published(published, delta),
      onJobEvent: (event) => {
        this.#posts?.observe(event);
        applyJobEvent(this.#store, event, this.#jobEnded);
      },
      onReady: () => {
        // Before `open` has returned there is nothing to be ready yet.
        if (this.#chain !== undefined) this.#chainReady(this.#chain);
      },
      onFault: (where, error) => this.#fault(where, error),
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
    if (services === undefined || this.#janitor !== undefined) return;
    this.#fatal = undefined;
    this.#context = this.#requestContext(chain, services.terms.minPayment);
    this.#janitor = new Janitor({
      store: this.#store,
      calls: services.calls,
      settlement: this.#settlement,
      chainTime: chain.time,
      terms: () => services.terms,
      maxSlashFee: this.#parts.settings.maxSlashFee,
      clock: this.#parts.clock,
      intervalMs: this.#parts.janitorMs,
      providerNow: (provider) => {
        const record = chain.published()?.snapshot.provider(provider);
        return record === undefined
          ? undefined
          : { signers: { provider, operator: record.operator }, endpoint: record.endpoint };
      },
      onEnd: this.#jobEnded,
      onStep: (step, jobId, error) => {
        this.#metrics.janitorStep(step);
        if (error === undefined) this.#parts.logger.info({ step, jobId }, "janitor");
        else this.#fault("janitor", error);
      },
    });
    this.#janitor.start();
  }

  #requestContext(chain: ChainPort, minPayment: bigint): RequestContext {
    const { settings, clock, random, logger } = this.#parts;
    const { services } = chain;
    if (services === undefined) throw new Error("the chain is not ready");
    this.#posts = new SightedPosts(services.calls);
    const escrow: EscrowPolicy = {
      defaultMaxOutputTokens: settings.defaultMaxOutputTokens,
      headroomRatio: settings.headroomRatio,
      unsignedLimitRatio: settings.unsignedLimitRatio,
      maxPerJob: settings.maxEscrowPerJob,
      minPayment,
    };
    return {
      published: () => chain.published(),
      statistics: this.#statistics,
      clock,
      random,
      allowPrivateEndpoints: settings.allowPrivateEndpoints,
      maxPrice: settings.maxPrice,
      escrow: () => escrow,
      lines: this.#lines,
      calls: this.#posts,
      treasury: services.treasury,
      chainTime: chain.time,
      terms: () => services.terms,
      account: this.#account,
      domain: this.#domain,
      connections: this.#connections,
      settlement: this.#settlement,
      limits: {
        deadlineSeconds: settings.deadlineSeconds,
        ackTimeoutMs: settings.ackTimeoutMs,
        idleTimeoutMs: settings.idleTimeoutMs,
        statementTimeoutMs,
        maxAnswerBytes: settings.maxAnswerBytes,
        maxAttempts,
        fullForMs: settings.waitPollMs,
      },
      observer: {
        decided: (requestId, selection, decision) => {
          this.#metrics.decided(selection);
          logger.debug({ requestId, decision }, "a selection was made");
        },
        waited: (_model, outcome, waitedMs) => this.#metrics.waited(outcome, waitedMs),
        attemptFailed: (jobId, provider, reason) => {
          this.#metrics.attemptFailed(reason);
          logger.warn({ jobId, provider, reason }, "a job was given up with its provider");
        },
        firstByte: (modelId, _sinceArrivalMs, sinceSentMs) => this.#metrics.firstByte(modelId, sinceSentMs),
        step: (step, tookMs) => this.#metrics.step(step, tookMs),
        delivered: (modelId, usage, generatingMs) => this.#metrics.used(modelId, usage, generatingMs),
      },
      nextNonce: () => chain.nextNonce(),
      posted: () => chain.poke(),
      hasGas: async () => await chain.hasGas(),
    };
  }

  /** A new snapshot: what was posted is in it, and what came free goes to the heads of the lines. */
  #published(published: Published<RoutingState>, delta: RegistryDelta): void {
    const { snapshot } = published;
    for (const address of delta.providers)
      this.#statistics.endpointMayHaveChanged(address, snapshot.provider(address)?.endpoint);
    this.#statistics.indexed(snapshot);
    this.#follower.sync(delta.providers, (address) => {
      const provider = snapshot.provider(address);
      return provider?.active === true ? provider : undefined;
    });
    for (const name of this.#lines.names()) {
      if (name === anyModelLine || offersAny(published, delta, name)) this.#lines.capacityFreed(name);
    }
  }

  // -------------------------------------------------------------------------------------------------------------- http

  #handlers(): Readonly<Record<RouteName, RouteHandler>> {
    const { settings, clock } = this.#parts;
    const completions: CompletionRouteOptions = {
      service: this.#service,
      clock,
      maxBodyBytes: settings.maxBodyBytes,
      commitGraceMs: settings.commitGraceMs,
      keepAliveMs: settings.keepAliveMs,
      clientStallMs: settings.clientStallMs,
    };
    const jobs: JobRouteOptions = {
      service: this.#service,
      store: this.#store,
      journal: this.#journal,
      clock,
      maxBodyBytes: settings.maxBodyBytes,
      keepAliveMs: settings.keepAliveMs,
      clientStallMs: settings.clientStallMs,
    };
    const withId =
      (handler: (exchange: HttpExchange, id: string) => Promise<void> | void): RouteHandler =>
      async (exchange) => {
        if ("id" in exchange.route) await handler(exchange, exchange.route.id);
      };
    return {
      chat: async (exchange) => await answerCompletion(completions, "chat", exchange),
      completions: async (exchange) => await answerCompletion(completions, "text", exchange),
      models: ({ response }) => {
        const { snapshot, unit } = this.#market();
        sendJson(response, 200, { object: "list", data: listModels(snapshot, this.#modelsSince, unit) });
      },
      model: withId(({ response }, id) => {
        const { snapshot, unit } = this.#market();
        sendJson(response, 200, findModel(snapshot, id, this.#modelsSince, unit));
      }),
      jobs: async (exchange) =>
        exchange.request.method === "POST" ? await postJob(jobs, exchange) : await listJobs(jobs, exchange),
      job: withId(async (exchange, id) => await getJob(jobs, exchange, id)),
      jobEvents: withId(async (exchange, id) => await getJobEvents(jobs, exchange, id)),
      jobCancel: withId(async (exchange, id) => await cancelJob(jobs, exchange, id)),
      healthz: ({ response }) => sendJson(response, 200, { status: "ok" }),
      readyz: ({ response }) => {
        const reason = this.notReady();
        if (reason === undefined) sendJson(response, 200, { status: "ready" });
        else sendJson(response, 503, { status: "not ready", reason });
      },
      metrics: async ({ response }) => {
        if (this.#metricsServer !== undefined)
          throw new T4tError("unknown_url", "Metrics are served on a port of their own.");
        await this.#sendMetrics(response);
      },
    };
  }

  #market() {
    const published = this.#chain?.published();
    const terms = this.#chain?.services?.terms;
    if (published === undefined || terms === undefined) throw chainUnavailableError();
    return { snapshot: published.snapshot, unit: priceUnitOf(terms.token) };
  }

  async #sendMetrics(response: HttpExchange["response"]): Promise<void> {
    const text = await this.#metrics.registry.metrics();
    sendBytes(response, 200, Buffer.from(text), this.#metrics.registry.contentType);
  }

  async #openMetricsServer(port: number): Promise<HttpServer> {
    const missing: RouteHandler = () => {
      throw new T4tError("unknown_url", "This port serves /metrics, /healthz and /readyz.");
    };
    const { healthz, readyz } = this.#handlers();
    return await startHttpServer({
      host: "127.0.0.1",
      port,
      keys: new ApiKeys([]),
      guardPages: true,
      maxBodyBytes: 1024,
      clock: this.#parts.clock,
      handlers: {
        chat: missing,
        completions: missing,
        models: missing,
        model: missing,
        jobs: missing,
        job: missing,
        jobEvents: missing,
        jobCancel: missing,
        healthz,
        readyz,
        metrics: async ({ response }) => await this.#sendMetrics(response),
      },
      mintRequestId: () => `req_${randomBytes(12).toString("hex")}`,
      onAnswer: () => undefined,
    }).catch(listenFailed("127.0.0.1", port, "T4T_METRICS_PORT"));
  }

  #answered(
    { response, requestId }: Pick<HttpExchange, "response" | "requestId">,
    route: RouteName | "none",
    error: unknown,
    tookMs: number,
  ): void {
    this.#metrics.answered(route, response.statusCode);
    if (error !== undefined && !(error instanceof T4tError) && response.statusCode >= 500) {
      this.#fault("http", error);
    }
    this.#parts.logger.debug({ requestId, route, status: response.statusCode, tookMs: Math.round(tookMs) }, "answered");
  }

  // --------------------------------------------------------------------------------------------------------------- end

  async #drainAndStop(drainMs: number): Promise<void> {
    const { logger } = this.#parts;
    logger.info({ running: this.#service.running }, "draining");
    this.#service.drain();
    this.#lines.drain();
    await this.#within(drainMs, async () => await this.#service.idle());
    this.#service.cancelAll();
    await this.#within(Math.min(lastReceiptsMs, drainMs), async () => {
      await this.#service.idle();
      await this.#settlement.idle();
    });
    const left = this.#store.openCount;
    if (left > 0) logger.info({ jobs: left }, "jobs stay in the journal for the next start");
    await this.#release();
    logger.info("stopped");
  }

  /** Stops everything at once, whatever was started. */
  async #release(): Promise<void> {
    await this.#pruner.stop();
    this.#janitor?.stop();
    this.#follower.close();
    this.#service.drain();
    this.#service.cancelAll();
    const closed = Promise.all([this.#server?.close(), this.#metricsServer?.close()]);
    await this.#chain?.close();
    this.#server?.destroy();
    this.#metricsServer?.destroy();
    await closed;
    this.#settlement.stop();
    await this.#connections.close();
    // Only now: what it waits for, a block or a provider, ends with the queue and the connections.
    await this.#janitor?.idle();
    await this.#settlement.idle();
    await this.#store.idle();
    await this.#journal.close();
  }

  async #within(ms: number, work: () => Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#parts.clock.after(ms, resolve);
    await Promise.race([work(), promise]);
    cancel();
  }

  // -------------------------------------------------------------------------------------------------------------- parts

  get #domain(): MessageDomain {
    const { chainId, escrow } = this.#parts.settings.chain.target;
    return { chainId, escrow };
  }

  /** For every strategy: that a provider shuts down matters to all of them. */
  #openFollower(): StatusFollower {
    const { settings, clock, random } = this.#parts;
    return new StatusFollower({
      transport: new GuardedStatusTransport({
        connections: this.#connections,
        allowPrivate: settings.allowPrivateEndpoints,
      }),
      sink: this.#statistics,
      clock,
      random,
      domain: this.#domain,
    });
  }

  #openMetrics(): GatewayMetrics {
    return new GatewayMetrics({
      waiting: () => this.#lines.sizes(),
      running: () => this.#service.running,
      openJobs: () => this.#store.openCount,
      locked: () => this.#store.locked,
      account: () => this.#chain?.balance,
      pendingTransactions: () => this.#chain?.pendingTransactions ?? 0,
      pendingSettlements: () => this.#settlement.pending,
      isReady: () => this.notReady() === undefined,
      index: () => this.#chain?.indexHealth,
      statistics: statisticsGauges(this.#statistics, { follower: () => this.#follower.state }),
    });
  }

  readonly #jobEnded: JobEndListener = (state, payment, attempt) => {
    this.#metrics.jobEnded(state, payment ?? 0n);
    if (state === "settled" && attempt.deliveredAt !== undefined) {
      this.#metrics.step("settle", this.#parts.clock.now() - attempt.deliveredAt);
    }
    this.#parts.logger.info({ jobId: attempt.jobId, state, payment: payment?.toString() }, "job ended");
  };

  /** Without a word of it, a market whose providers are all left out looks like one that has none. */
  #endpointRefused(provider: Address, endpoint: string): void {
    const reason = parseEndpoint(endpoint, this.#parts.settings.allowPrivateEndpoints);
    const cure =
      reason === "private_address" ? "on a local network, set T4T_ALLOW_PRIVATE_ENDPOINTS=true to call it" : undefined;
    this.#parts.logger.warn(
      { provider, endpoint, reason, cure },
      "a provider is left out, as its endpoint is never called",
    );
  }

  #fault(where: string, error: unknown): void {
    this.#metrics.fault(where);
    this.#parts.logger.error({ where, error: describeError(error) }, "a fault");
  }
}

function listenFailed(host: string, port: number, portVariable: string): (error: unknown) => never {
  return (error) => {
    throw listenError(error, { host, port, hostVariable: "T4T_GATEWAY_HOST", portVariable });
  };
}

/** The strategies that requests may run under: of the policy file, or of the variables. */
function policiesOf(settings: GatewaySettings): RoutingPolicies {
  if (settings.routingFile !== undefined) return readPolicyFile(readFileSync(settings.routingFile, "utf8"));
  const names = new Set([settings.strategy, ...settings.allowedStrategies]);
  const requests = Object.fromEntries([...names].map((name) => [name, policyConfig(name, settings)]));
  return readPolicyFile(JSON.stringify({ default: policyConfig(settings.strategy, settings), requests }));
}

function policyConfig(name: PolicyName, settings: GatewaySettings): PolicyConfig {
  if (name !== "manual") return { name };
  if (settings.manualProvider === undefined) throw new Error("the strategy manual needs a provider");
  return { name, provider: settings.manualProvider };
}

/** Whether one of the providers that changed offers a model. */
function offersAny({ snapshot }: Published<RoutingState>, delta: RegistryDelta, modelId: string): boolean {
  if (delta.models.has(modelId)) return true;
  for (const address of delta.providers) if (snapshot.provider(address)?.offerings.has(modelId) === true) return true;
  return false;
}
