import type { Address } from "viem";
import type { Random } from "../../../protocol/clock.ts";
import { type Take, type Waiter, WaitingLine } from "../../../gateway/capacity/waiting-line.ts";
import { select } from "../../../gateway/routing/select.ts";
import { RoutingStatistics } from "../../../gateway/routing/statistics/routing-statistics.ts";
import type { Candidate, LiveStatistics, Policy, Selection } from "../../../gateway/routing/types.ts";
import { waitingNeeds } from "../../../gateway/routing/waiting-needs.ts";
import type { Simulator } from "../engine/simulator.ts";
import { type Backend, simModel } from "./backend.ts";
import type { SimChain } from "./chain.ts";
import type { RunRecorder } from "./recorder.ts";
import type { TraceRequest } from "./trace.ts";

/** How a gateway behaves; times in ms. */
export interface GatewayConfig {
  readonly region: number;
  /** Client gives up without a first token after so long. */
  readonly clientTimeoutMs: number;
  /** Longest time in line, all stays together; absent: as long as the client stays. */
  readonly waitLimitMs?: number;
  /** Attempts after which a request fails. */
  readonly maxAttempts: number;
  /** How often the line is asked again, beside the wakes by freed slots and by waits that open another provider. */
  readonly pollMs: number;
  /** Whether requests carry their session as affinity key. */
  readonly affinity: boolean;
  /** Whether outcomes are kept from selection, as in a gateway that counts streams only. */
  readonly ignoresOutcomes?: boolean;
}

interface Running {
  readonly request: TraceRequest;
  readonly tried: Set<Address>;
  attempts: number;
  /** Ms of earlier stays in line. */
  waitedMs: number;
  /** Ended for the client: answered, failed or gone. */
  over: boolean;
  abort: (() => void) | undefined;
}

/** One gateway: the real selection, statistics and waiting line, retries along the ranking, client time-outs. */
export class SimGateway {
  readonly statistics: RoutingStatistics;
  readonly #config: GatewayConfig;
  readonly #simulator: Simulator;
  readonly #chain: SimChain;
  readonly #backends: ReadonlyMap<Address, Backend>;
  readonly #policy: Policy;
  readonly #random: Random;
  readonly #recorder: RunRecorder;
  readonly #roundTripMs: (backend: Backend) => number;
  /** The statistics as selection sees them. */
  readonly #known: LiveStatistics;
  readonly #line = new WaitingLine<readonly Candidate[]>();
  #polling = false;
  #recheckAt = Number.POSITIVE_INFINITY;

  constructor(
    config: GatewayConfig,
    simulator: Simulator,
    chain: SimChain,
    backends: ReadonlyMap<Address, Backend>,
    policy: Policy,
    random: Random,
    recorder: RunRecorder,
    roundTripMs: (backend: Backend) => number,
  ) {
    this.#config = config;
    this.#simulator = simulator;
    this.#chain = chain;
    this.#backends = backends;
    this.#policy = policy;
    this.#random = random;
    this.#recorder = recorder;
    this.#roundTripMs = roundTripMs;
    this.statistics = new RoutingStatistics({ clock: simulator, statusStaleAfterMs: 30_000 });
    this.#known = config.ignoresOutcomes === true ? withoutOutcomes(this.statistics) : this.statistics;
    for (const backend of backends.values())
      this.statistics.recordRoundTrip(backend.config.address, roundTripMs(backend));
  }

  /** A request arrives from its client. */
  arrive(request: TraceRequest): void {
    const running: Running = { request, tried: new Set(), attempts: 0, waitedMs: 0, over: false, abort: undefined };
    this.#simulator.at(request.atMs + this.#config.clientTimeoutMs, () => {
      if (running.over) return;
      running.abort?.();
      this.#fail(running, "client_timeout");
    });
    this.#choose(running);
  }

  /** The index has published a block. */
  indexed(): void {
    this.statistics.indexed(this.#chain.published.snapshot);
    this.#wake();
  }

  #fail(running: Running, cause: string): void {
    running.over = true;
    this.#recorder.failed(running.request, cause);
  }

  /** Selects and goes, or joins the line when it must wait. */
  #choose(running: Running): void {
    const { session, id } = running.request;
    const sinceMs = this.#simulator.now();
    let cancelLimit = (): void => undefined;
    const waiter: Waiter<readonly Candidate[]> = {
      sequence: id,
      needs: waitingNeeds(this.#policy, { affinityKey: this.#keyOf(session), tried: running.tried }, ""),
      take: () => this.#take(running),
      settle: (take) => {
        running.abort = undefined;
        cancelLimit();
        running.waitedMs += this.#simulator.now() - sinceMs;
        if (take.kind === "granted") this.#attempt(running, take.grant);
        else this.#fail(running, "nobody_left");
      },
    };
    const take = this.#line.tryFirst(waiter);
    if (take.kind !== "busy") {
      waiter.settle(take);
      return;
    }
    this.#recorder.waited();
    running.abort = () => {
      cancelLimit();
      this.#line.leave(waiter);
    };
    this.#line.join(waiter);
    if (this.#config.waitLimitMs !== undefined) {
      cancelLimit = this.#simulator.after(this.#config.waitLimitMs - running.waitedMs, () => {
        if (this.#line.leave(waiter)) this.#fail(running, "wait_timeout");
      });
    }
    this.#planRecheck(take.recheckMs);
    this.#poll();
  }

  #take(running: Running): Take<readonly Candidate[]> {
    const { verdict, ranked, recheckMs } = this.#select(running);
    if (verdict === "ready") return { kind: "granted", grant: ranked };
    if (verdict === "none") return { kind: "none" };
    return recheckMs === undefined ? { kind: "busy" } : { kind: "busy", recheckMs };
  }

  #keyOf(session: number): string | undefined {
    return this.#config.affinity ? `session-${session}` : undefined;
  }

  #select(running: Running): Selection {
    const { request, tried } = running;
    return select(
      this.#chain.published,
      {
        modelId: simModel,
        inputTokens: request.inputTokens,
        outputTokens: request.outputTokens,
        affinityKey: this.#keyOf(request.session),
        routingText: `session-${request.session}`,
        elapsedMs: this.#simulator.now() - request.atMs,
        tried,
        maxPrice: undefined,
      },
      this.#policy,
      this.#known,
      this.#simulator.now(),
      this.#random,
    );
  }

  #attempt(running: Running, ranked: readonly Candidate[]): void {
    const [candidate, ...others] = ranked;
    if (candidate === undefined) {
      this.#choose(running);
      return;
    }
    if (running.attempts >= this.#config.maxAttempts) {
      this.#fail(running, "attempts_exhausted");
      return;
    }
    running.attempts += 1;
    if (running.attempts > 1) this.#recorder.retried(running.request);
    const backend = this.#backends.get(candidate.provider) as Backend;
    const oneWayMs = this.#roundTripMs(backend) / 2;
    const lease = this.statistics.acquire(
      candidate.provider,
      candidate.generation,
      candidate.modelId,
      running.request.inputTokens,
    );
    const post = this.statistics.openPost(candidate.provider);
    const startMs = this.#simulator.now();
    const since = () => this.#simulator.now() - startMs;
    const release = (outcome: "success" | "fault" | "busy" | "aborted", ttftMs?: number): void => {
      const outputTokens = running.request.outputTokens;
      lease.end({ outcome, durationMs: since(), outputTokens, ...(ttftMs === undefined ? {} : { ttftMs }) });
      this.#wake();
    };
    const goOn = (): void => {
      if (!running.over) this.#attempt(running, others);
    };
    running.abort = () => {
      post.drop();
      release("aborted");
    };
    this.#simulator.after(oneWayMs, () => {
      if (running.over) return;
      let ttftMs: number | undefined;
      const abort = backend.start(running.request, {
        firstToken: (cachedTokens) => {
          this.#simulator.after(oneWayMs, () => {
            if (running.over) return;
            running.over = true;
            ttftMs = since();
            lease.firstToken(ttftMs);
            this.#recorder.firstToken(running.request, this.#simulator.now(), cachedTokens, candidate.provider);
          });
        },
        done: () => {
          this.#simulator.after(oneWayMs, () => {
            release("success", ttftMs);
            this.#recorder.done(running.request, this.#simulator.now());
          });
        },
        failed: () => {
          this.#simulator.after(oneWayMs, () => {
            running.tried.add(candidate.provider);
            release("fault");
            this.#recorder.faulted(candidate.provider);
            goOn();
          });
        },
      });
      if (abort === undefined) {
        post.drop();
        const block = this.#chain.nextBlock;
        this.#simulator.after(oneWayMs, () => {
          this.statistics.noteFull(candidate.provider, block);
          release("busy");
          goOn();
        });
        return;
      }
      post.mined(candidate.provider, this.#chain.nextBlock);
      running.abort = () => {
        abort();
        release("aborted");
      };
    });
  }

  /** Offers what may have come free to the line, from its head on. */
  #wake(): void {
    this.#line.pump();
    this.#planRecheck(this.#line.recheckMs);
  }

  #planRecheck(recheckMs: number | undefined): void {
    if (recheckMs === undefined) return;
    const at = this.#simulator.now() + Math.max(1, recheckMs);
    if (at >= this.#recheckAt) return;
    this.#recheckAt = at;
    this.#simulator.at(at, () => {
      // An earlier look was planned since, and has planned the next one.
      if (this.#recheckAt !== at) return;
      this.#recheckAt = Number.POSITIVE_INFINITY;
      this.#wake();
    });
  }

  #poll(): void {
    if (this.#polling) return;
    this.#polling = true;
    this.#simulator.after(this.#config.pollMs, () => {
      this.#polling = false;
      this.#line.pump(true);
      this.#planRecheck(this.#line.recheckMs);
      if (this.#line.size > 0) this.#poll();
    });
  }
}

function withoutOutcomes(statistics: RoutingStatistics): LiveStatistics {
  return {
    inFlight: (provider, generation) => statistics.inFlight(provider, generation),
    unconfirmedPosts: (provider) => statistics.unconfirmedPosts(provider),
    knownFull: (provider) => statistics.knownFull(provider),
    measured: () => undefined,
    reported: (provider, modelId) => statistics.reported(provider, modelId),
    roundTripMs: (provider) => statistics.roundTripMs(provider),
  };
}
