import type { Address } from "viem";
import type { Published } from "../../chain/registry-index/types.ts";
import type { Clock, Random } from "../../protocol/clock.ts";
import type { Take } from "../capacity/waiting-line.ts";
import { type DecisionRecord, decisionRecord } from "../routing/decision-record.ts";
import { select } from "../routing/select.ts";
import type { RoutingState } from "../routing/state.ts";
import type { Lease } from "../routing/statistics/routing-statistics.ts";
import type { PostHandle } from "../routing/statistics/posts.ts";
import type { RoutingRequest, Selection } from "../routing/types.ts";
import { waitingNeeds } from "../routing/waiting-needs.ts";
import { parseEndpoint } from "../upstream/endpoint.ts";
import { type EscrowPlan, type EscrowPolicy, planEscrow } from "./escrow-plan.ts";
import type { GatewayStatistics } from "./gateway-statistics.ts";
import { jobCollateral } from "./job-collateral.ts";
import type { JobRequest } from "./job-request.ts";
import { offerClass } from "./offer-classes.ts";

/** Capacity taken for one post: terms for the chain, and places in the statistics that hold it. */
export interface Grant {
  readonly selection: Selection;
  /** Why, with what was known at that moment. */
  readonly decision: DecisionRecord;
  readonly plan: EscrowPlan;
  readonly lease: Lease;
  readonly post: PostHandle;
}

/** What selection reads. */
export interface SelectionSources {
  published(): Published<RoutingState> | undefined;
  readonly statistics: GatewayStatistics;
  readonly clock: Clock;
  readonly random: Random;
  readonly allowPrivateEndpoints: boolean;
  readonly maxPrice: bigint | undefined;
  readonly escrow: () => EscrowPolicy;
}

/** Name of the line for requests that name no model. */
export const anyModelLine = "";

/** Answer tokens that selection reckons with when the client set no bound. */
const likelyOutputTokens = 256;

/** Ms after which more endpoints are looked at when a decision met bad ones alone: a decision looks at a thousand at most. */
const nextLookMs = 20;

/** Selects for one request, as often as it is asked: each time over the newest snapshot and what was tried until then. */
export class Selector {
  readonly #sources: SelectionSources;
  readonly #request: JobRequest;
  readonly tried = new Set<Address>();
  /** Tokens of context that were found to be too few for the request. */
  #tooShort = 0;
  /** The newest decision, for errors and progress. */
  last: Selection | undefined;
  /** Somebody could serve, but only for more than one job may lock. */
  overEscrowLimit = false;

  constructor(sources: SelectionSources, request: JobRequest) {
    this.#sources = sources;
    this.#request = request;
  }

  /** A backend with this context found the request too long: only a longer one can serve it. */
  contextTooShort(contextLength: number): void {
    this.#tooShort = Math.max(this.#tooShort, contextLength);
  }

  /** Requests with equal needs wait in one order; see `Waiter`. */
  needs(): string {
    const { completion, policy, affinityKey } = this.#request;
    const published = this.#sources.published();
    const size = {
      inputTokens: this.#inputTokens(),
      outputTokens: this.#outputTokens(),
      collateral: jobCollateral(completion, this.#sources.escrow()),
    };
    const offers = published === undefined ? "" : offerClass(published, completion.modelId, size);
    return waitingNeeds(policy, { affinityKey, tried: this.tried }, offers);
  }

  /** Takes capacity at the best provider that has some. Synchronous: between the look and the taking nothing can happen. */
  take(): Take<Grant> {
    const { statistics } = this.#sources;
    this.overEscrowLimit = false;
    const selection = this.#select();
    if (selection === undefined || selection.verdict === "none") return { kind: "none" };
    if (selection.verdict === "busy") {
      return selection.recheckMs === undefined ? { kind: "busy" } : { kind: "busy", recheckMs: selection.recheckMs };
    }
    const plan = planEscrow(this.#request.completion, selection.ranked, this.#sources.escrow());
    const first = plan?.candidates[0];
    if (plan === undefined || first === undefined) {
      this.overEscrowLimit = true;
      return { kind: "none" };
    }
    return {
      kind: "granted",
      grant: {
        selection,
        decision: decisionRecord(selection, statistics),
        plan,
        lease: statistics.acquire(first.provider, first.generation, first.modelId, this.#inputTokens()),
        post: statistics.openPost(first.provider),
      },
    };
  }

  /** The newest decision, made now where another waiter was asked in this one's stead. */
  look(): Selection | undefined {
    return this.last ?? this.#select();
  }

  /** Selects, leaving out endpoints that are never called. */
  #select(): Selection | undefined {
    const { statistics } = this.#sources;
    const selection = this.#selectOnce();
    this.last = selection ?? this.last;
    const refused = selection?.ranked.filter(({ endpoint }) => this.#isClosed(endpoint)) ?? [];
    if (refused.length === 0) return selection;
    for (const { provider, endpoint } of refused) statistics.refuseEndpoint(provider, endpoint);
    // There may be thousands: a look at the best few at a time would be a decision for each few of them.
    const snapshot = this.#sources.published()?.snapshot;
    const closedEndpoint = (provider: Address): string | undefined => {
      const endpoint = snapshot?.provider(provider)?.endpoint;
      return endpoint !== undefined && this.#isClosed(endpoint) ? endpoint : undefined;
    };
    const second = statistics.whileLookingAtEndpoints(closedEndpoint, () => this.#selectOnce());
    this.last = second?.verdict === "busy" ? { ...second, recheckMs: nextLookMs } : second;
    return this.last;
  }

  #isClosed(endpoint: string): boolean {
    return typeof parseEndpoint(endpoint, this.#sources.allowPrivateEndpoints) === "string";
  }

  #selectOnce(): Selection | undefined {
    const published = this.#sources.published();
    if (published === undefined) return undefined;
    const { completion, affinityKey, arrivedAt, policy } = this.#request;
    const request: RoutingRequest = {
      modelId: completion.modelId,
      inputTokens: this.#inputTokens(),
      outputTokens: this.#outputTokens(),
      affinityKey,
      routingText: completion.routingText,
      elapsedMs: this.#sources.clock.monotonic() - arrivedAt,
      tried: this.tried,
      maxPrice: this.#sources.maxPrice,
      collateral: jobCollateral(completion, this.#sources.escrow()),
    };
    return select(
      published,
      request,
      policy,
      this.#sources.statistics,
      this.#sources.clock.now(),
      this.#sources.random,
    );
  }

  /** The estimate, or what a backend's refusal shows to be the least. */
  #inputTokens(): number {
    const least = this.#tooShort === 0 ? 0 : this.#tooShort + 1 - this.#outputTokens();
    return Math.max(this.#request.completion.inputTokensEstimate, least);
  }

  #outputTokens(): number {
    const { completion } = this.#request;
    return completion.maxTokens ?? Math.min(likelyOutputTokens, this.#sources.escrow().defaultMaxOutputTokens);
  }
}
