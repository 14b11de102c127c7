import { randomBytes } from "node:crypto";
import { T4tError } from "../protocol/errors.ts";
import { listenError } from "../protocol/listen-fault.ts";
import { collateralFor } from "../protocol/money.ts";
import type { Journal } from "../store/journal.ts";
import type { GatewayParts } from "./gateway-parts.ts";
import type { GatewayLife, GatewayServices } from "./gateway-services.ts";
import { ApiKeys } from "./http/api-keys.ts";
import { type HttpExchange, type HttpServer, type RouteHandler, startHttpServer } from "./http/http-server.ts";
import { sendBytes, sendJson } from "./http/respond.ts";
import type { RouteName } from "./http/router.ts";
import { cancelJob, getJob, getJobEvents, type JobRouteOptions, listJobs, postJob } from "./jobs/job-routes.ts";
import { chainUnavailableError } from "./jobs/request-errors.ts";
import { answerCompletion, type CompletionRouteOptions } from "./openai/completion-routes.ts";
import { findModel, listModels, type MarketFacts, priceUnitOf } from "./openai/model-list.ts";

/** The ports of one gateway, and what is answered there. */
export class GatewayServer {
  readonly #parts: GatewayParts;
  readonly #services: GatewayServices;
  readonly #journal: Journal;
  readonly #life: GatewayLife;
  readonly #modelsSince: number;
  #server: HttpServer | undefined;
  #metricsServer: HttpServer | undefined;

  constructor(parts: GatewayParts, services: GatewayServices, journal: Journal, life: GatewayLife) {
    this.#parts = parts;
    this.#services = services;
    this.#journal = journal;
    this.#life = life;
    this.#modelsSince = Math.floor(parts.clock.now() / 1000);
  }

  /** Base URL of the API; empty before `open`. */
  get url(): string {
    return this.#server?.url ?? "";
  }

  /** Base URL of the metrics where they have a port of their own. */
  get metricsUrl(): string | undefined {
    return this.#metricsServer?.url;
  }

  /** Opens the port of the API, and that of the metrics where there is one. Rejects with what `listenError` makes of a taken port. */
  async open(): Promise<void> {
    const { settings, clock } = this.#parts;
    this.#server = await startHttpServer({
      host: settings.host,
      port: settings.port,
      keys: new ApiKeys(settings.apiKeys),
      guardPages: settings.apiKeys.length === 0 && !settings.allowUnauthenticated,
      maxBodyBytes: settings.maxBodyBytes,
      clock,
      handlers: this.#handlers(),
      mintRequestId: () => `req_${randomBytes(12).toString("hex")}`,
      onAnswer: (exchange, route, error, tookMs) => this.#services.report.answered(exchange, route, error, tookMs),
    }).catch(listenFailed(settings.host, settings.port, "T4T_GATEWAY_PORT"));
    if (settings.metricsPort !== undefined) this.#metricsServer = await this.#openMetricsServer(settings.metricsPort);
  }

  /** Takes no new connections. Resolves when all are gone. */
  async close(): Promise<void> {
    await Promise.all([this.#server?.close(), this.#metricsServer?.close()]);
  }

  /** Ends the connections that are left. */
  destroy(): void {
    this.#server?.destroy();
    this.#metricsServer?.destroy();
  }

  #handlers(): Readonly<Record<RouteName, RouteHandler>> {
    const { settings, clock } = this.#parts;
    const completions: CompletionRouteOptions = {
      service: this.#services.service,
      clock,
      maxBodyBytes: settings.maxBodyBytes,
      commitGraceMs: settings.commitGraceMs,
      keepAliveMs: settings.keepAliveMs,
      clientStallMs: settings.clientStallMs,
    };
    const jobs: JobRouteOptions = {
      service: this.#services.service,
      store: this.#services.store,
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
        const { snapshot, facts } = this.#market();
        sendJson(response, 200, { object: "list", data: listModels(snapshot, facts) });
      },
      model: withId(({ response }, id) => {
        const { snapshot, facts } = this.#market();
        sendJson(response, 200, findModel(snapshot, id, facts));
      }),
      jobs: async (exchange) =>
        exchange.request.method === "POST" ? await postJob(jobs, exchange) : await listJobs(jobs, exchange),
      job: withId(async (exchange, id) => await getJob(jobs, exchange, id)),
      jobEvents: withId(async (exchange, id) => await getJobEvents(jobs, exchange, id)),
      jobCancel: withId(async (exchange, id) => await cancelJob(jobs, exchange, id)),
      healthz: ({ response }) => sendJson(response, 200, { status: "ok" }),
      readyz: ({ response }) => {
        const reason = this.#life.notReady();
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
    const chain = this.#life.chain();
    const published = chain?.published();
    const terms = chain?.services?.terms;
    if (published === undefined || terms === undefined) throw chainUnavailableError();
    const facts: MarketFacts = {
      created: this.#modelsSince,
      unit: priceUnitOf(terms.token),
      leastStake: collateralFor(terms.minPayment, terms.collateralBps),
      isRefused: (provider) => this.#services.statistics.endpointRefused(provider),
    };
    return { snapshot: published.snapshot, facts };
  }

  async #sendMetrics(response: HttpExchange["response"]): Promise<void> {
    const { metrics } = this.#services;
    const text = await metrics.registry.metrics();
    sendBytes(response, 200, Buffer.from(text), metrics.registry.contentType);
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
}

function listenFailed(host: string, port: number, portVariable: string): (error: unknown) => never {
  return (error) => {
    throw listenError(error, { host, port, hostVariable: "T4T_GATEWAY_HOST", portVariable });
  };
}
