import {
  type Emitted,
  type MarketRow,
  type ModelParameters,
  type OfferingRow,
  type ProviderRow,
  Refused,
  refuseIf,
  type State,
  ZERO_ADDRESS,
} from "./state.ts";
import { moveTokens } from "./token-model.ts";

const BPS = 10_000n;
const UNLIMITED = 2n ** 32n - 1n;
const MAX_MARKETS = 8;
/** "market", as bytes32. */
const MARKET_PARAMETER = `0x${Buffer.from("market").toString("hex").padEnd(64, "0")}`;
export const BURN_ADDRESS = "0x000000000000000000000000000000000000dEaD";

/** Numbers of `IProviderRegistry.Refusal`. */
const Refusal = {
  None: 0n,
  UnknownProvider: 1n,
  Inactive: 2n,
  Stale: 3n,
  NoOffering: 4n,
  PriceAboveLimit: 5n,
  AtCapacity: 6n,
  InsufficientStake: 7n,
} as const;

/** What a post asks of a provider. */
export interface SlotRequest {
  readonly modelKey: string;
  readonly maxInputPrice: bigint;
  readonly maxOutputPrice: bigint;
  readonly payment: bigint;
}

/** `ProviderRegistry`, written down from its interface. Changes the state it is given; a refusal leaves it half changed. */
export class RegistryModel {
  readonly #state: State;
  readonly #parameters: ModelParameters;
  readonly #self: string;
  readonly #token: string;
  readonly #admin: string;
  readonly #emit: (event: Emitted) => void;

  constructor(
    state: State,
    parameters: ModelParameters,
    addresses: { readonly registry: string; readonly token: string; readonly admin: string },
    emit: (event: Emitted) => void,
  ) {
    this.#state = state;
    this.#parameters = parameters;
    this.#self = addresses.registry;
    this.#token = addresses.token;
    this.#admin = addresses.admin;
    this.#emit = emit;
  }

  register(caller: string, operator: string, payout: string, endpoint: string, stake: bigint): void {
    const { providers, actsFor, now } = this.#state;
    refuseIf(providers.has(caller), "ProviderAlreadyRegistered", caller);
    refuseIf(![...this.#state.markets.values()].some(({ known }) => known), "NoMarket");
    const employer = actsFor.get(caller);
    if (employer !== undefined) this.#resign(employer, caller);
    actsFor.set(caller, caller);
    this.#appoint(caller, operator);
    this.#checkPayout(payout);
    checkEndpoint(endpoint);
    providers.set(caller, {
      operator,
      payout,
      active: true,
      lastSeen: now,
      generation: 1n,
      cap: 0n,
      openJobs: 0n,
      exposure: 0n,
      stake: 0n,
      unbonding: 0n,
      unbondingAt: 0n,
      models: [],
      endpoint,
    });
    this.#emit({ name: "ProviderRegistered", args: [caller, operator, payout, 1n, 0n, endpoint] });
    if (stake !== 0n) this.#stake(caller, stake);
    const { stake: staked } = this.#row(caller);
    refuseIf(staked < this.#parameters.minStake, "InsufficientStake", caller, staked, this.#parameters.minStake);
  }

  setOperator(caller: string, operator: string): void {
    const row = this.#own(caller);
    const previous = row.operator;
    if (operator !== previous) {
      this.#dismiss(caller, previous);
      this.#appoint(caller, operator);
      row.operator = operator;
    }
    this.#seen(row);
    this.#emit({ name: "OperatorChanged", args: [caller, previous, operator] });
  }

  resignOperator(caller: string): void {
    const owner = this.#state.actsFor.get(caller);
    if (owner === undefined || owner === caller) throw new Refused("NotProvider", [caller]);
    this.#resign(owner, caller);
  }

  setEndpoint(caller: string, endpoint: string): void {
    const [owner, row] = this.#acting(caller);
    checkEndpoint(endpoint);
    row.endpoint = endpoint;
    this.#seen(row);
    this.#emit({ name: "EndpointChanged", args: [owner, endpoint] });
  }

  setPayout(caller: string, payout: string): void {
    const row = this.#own(caller);
    this.#checkPayout(payout);
    row.payout = payout;
    this.#seen(row);
    this.#emit({ name: "PayoutChanged", args: [caller, payout] });
  }

  deactivate(caller: string): void {
    const row = this.#own(caller);
    refuseIf(!row.active, "ProviderInactive", caller);
    row.active = false;
    this.#emit({ name: "ProviderDeactivated", args: [caller] });
  }

  reactivate(caller: string): void {
    const row = this.#own(caller);
    const { minStake } = this.#parameters;
    refuseIf(row.active, "ProviderActive", caller);
    refuseIf(row.stake < minStake, "InsufficientStake", caller, row.stake, minStake);
    row.generation += 1n;
    row.active = true;
    row.lastSeen = this.#state.now;
    this.#emit({ name: "ProviderReactivated", args: [caller, row.generation] });
  }

  setMaxConcurrentJobs(caller: string, cap: bigint): void {
    const [owner, row] = this.#acting(caller);
    this.#emit({ name: "MaxConcurrentJobsUpdated", args: [owner, row.cap, cap, row.openJobs] });
    row.cap = cap;
    this.#seen(row);
  }

  setOffering(
    caller: string,
    modelId: string,
    modelKey: string,
    inputPrice: bigint,
    outputPrice: bigint,
    contextLength: bigint,
  ): void {
    const [owner, row] = this.#acting(caller);
    refuseIf(inputPrice === 0n && outputPrice === 0n, "InvalidPrice", inputPrice, outputPrice);
    refuseIf(contextLength === 0n, "InvalidContextLength", contextLength);
    const { records, current, modelProviders } = this.#state;
    if (!row.models.includes(modelKey)) {
      row.models.push(modelKey);
      modelProviders.set(modelKey, [...(modelProviders.get(modelKey) ?? []), owner]);
    }
    records.push({ provider: owner, modelKey, modelId, inputPrice, outputPrice, contextLength });
    const id = BigInt(records.length);
    current.set(`${owner} ${modelKey}`, id);
    this.#seen(row);
    this.#emit({ name: "OfferingSet", args: [owner, modelKey, id, inputPrice, outputPrice, contextLength, modelId] });
  }

  removeOffering(caller: string, modelKey: string): void {
    const [owner, row] = this.#acting(caller);
    const { current, modelProviders } = this.#state;
    const key = `${owner} ${modelKey}`;
    const id = current.get(key);
    if (id === undefined) throw new Refused("OfferingNotFound", [owner, modelKey]);
    current.delete(key);
    removeFromSet(row.models, modelKey);
    removeFromSet(modelProviders.get(modelKey) ?? [], owner);
    this.#seen(row);
    this.#emit({ name: "OfferingRemoved", args: [owner, modelKey, id] });
  }

  heartbeat(caller: string): void {
    const [owner, row] = this.#acting(caller);
    refuseIf(!row.active, "ProviderInactive", owner);
    row.lastSeen = this.#state.now;
    this.#emit({ name: "Heartbeat", args: [owner] });
  }

  addStake(caller: string, amount: bigint): void {
    this.#seen(this.#own(caller));
    this.#stake(caller, amount);
  }

  startUnbonding(caller: string, amount: bigint): void {
    const row = this.#own(caller);
    refuseIf(row.unbonding !== 0n, "UnbondingPending", row.unbondingAt);
    refuseIf(amount === 0n, "InvalidAmount", amount);
    const kept = row.active ? this.#parameters.minStake : 0n;
    const available = row.stake > kept ? row.stake - kept : 0n;
    refuseIf(amount > available, "StakeLocked", available, amount);
    row.stake -= amount;
    row.unbonding = amount;
    row.unbondingAt = this.#state.now + this.#parameters.unbondingPeriod;
    this.#seen(row);
    this.#emit({ name: "UnbondingStarted", args: [caller, amount, row.stake, row.unbondingAt] });
  }

  withdrawStake(caller: string): void {
    const row = this.#own(caller);
    const amount = row.unbonding;
    refuseIf(amount === 0n, "NothingUnbonding", caller);
    refuseIf(this.#state.now < row.unbondingAt, "UnbondingPending", row.unbondingAt);
    this.#checkPayout(row.payout);
    row.unbonding = 0n;
    row.unbondingAt = 0n;
    this.#seen(row);
    this.#emit({ name: "StakeWithdrawn", args: [caller, row.payout, amount] });
    moveTokens(this.#state, this.#self, row.payout, amount);
  }

  sweepBurntStake(): void {
    const amount = this.#state.burntStake;
    refuseIf(amount === 0n, "InvalidAmount", amount);
    this.#state.burntStake = 0n;
    this.#emit({ name: "BurntStakeSwept", args: [amount] });
    moveTokens(this.#state, this.#self, BURN_ADDRESS, amount);
  }

  /** @param hasCode whether a contract is there. */
  proposeMarket(caller: string, market: string, hasCode: boolean): void {
    refuseIf(caller !== this.#admin, "OwnableUnauthorizedAccount", caller);
    refuseIf(!hasCode, "InvalidParameter", MARKET_PARAMETER);
    const row = this.#market(market);
    refuseIf(row.known, "MarketKnown", market);
    row.allowableFrom = this.#state.now + 3n * this.#parameters.unbondingPeriod;
    this.#emit({ name: "MarketProposed", args: [market, ...this.proposal(market)] });
  }

  /** @param hasCode whether a contract is there. */
  setMarket(caller: string, market: string, allowed: boolean, hasCode: boolean): void {
    refuseIf(caller !== this.#admin, "OwnableUnauthorizedAccount", caller);
    const row = this.#market(market);
    const { now, providers, markets } = this.#state;
    if (allowed && !row.known) {
      refuseIf(!hasCode, "InvalidParameter", MARKET_PARAMETER);
      const [from, until] = this.proposal(market);
      const due = from !== 0n && now >= from && now < until;
      refuseIf(providers.size > 0 && !due, "MarketNotDue", market, from, until);
      const known = [...markets.values()].filter((one) => one.known);
      refuseIf(known.length >= MAX_MARKETS, "TooManyMarkets", BigInt(MAX_MARKETS));
      row.known = true;
    }
    if (!allowed && row.allowableFrom !== 0n) this.#emit({ name: "MarketProposalWithdrawn", args: [market] });
    row.allowableFrom = 0n;
    row.allowed = allowed;
    this.#emit({ name: "MarketSet", args: [market, allowed] });
  }

  /** When a market can be allowed, from and until; zeros when it is not proposed. */
  proposal(market: string): readonly [bigint, bigint] {
    const from = this.#state.markets.get(market)?.allowableFrom ?? 0n;
    return from === 0n ? [0n, 0n] : [from, from + this.#parameters.unbondingPeriod];
  }

  isDeadEnd(account: string): boolean {
    return account === this.#self || account === this.#token || this.#state.markets.get(account)?.known === true;
  }

  // ------------------------------------------------------------------------------------------------- what the market calls

  requireOpenMarket(escrow: string): void {
    const { allowed, suspended } = this.#market(escrow);
    refuseIf(!allowed, "NotMarket", escrow);
    refuseIf(suspended, "EnforcedPause");
  }

  /** Takes one slot; reverts with the provider's refusal. */
  acquire(provider: string, request: SlotRequest): bigint {
    const refusal = this.refusalOf(provider, request);
    if (refusal !== Refusal.None) throw this.#refused(refusal, provider, request);
    return this.#take(provider, request);
  }

  /** Takes one slot of the first candidate that can give it; `undefined` when none can. */
  acquireAny(
    candidates: readonly string[],
    request: SlotRequest,
  ): { provider: string; offeringId: bigint } | undefined {
    const provider = candidates.find((candidate) => this.refusalOf(candidate, request) === Refusal.None);
    return provider === undefined ? undefined : { provider, offeringId: this.#take(provider, request) };
  }

  refusalOf(provider: string, request: SlotRequest): bigint {
    const row = this.#state.providers.get(provider);
    if (row === undefined) return Refusal.UnknownProvider;
    if (!row.active) return Refusal.Inactive;
    if (this.#state.now - row.lastSeen > this.#parameters.timeToLive) return Refusal.Stale;
    const offering = this.#offering(provider, request.modelKey);
    if (offering === undefined) return Refusal.NoOffering;
    if (offering.inputPrice > request.maxInputPrice || offering.outputPrice > request.maxOutputPrice) {
      return Refusal.PriceAboveLimit;
    }
    if (row.openJobs + 1n > (row.cap === 0n ? UNLIMITED : row.cap)) return Refusal.AtCapacity;
    if (row.stake - row.exposure < this.collateralFor(request.payment)) return Refusal.InsufficientStake;
    return Refusal.None;
  }

  /** Frees slots. `seen`: the provider itself acted. */
  release(provider: string, count: bigint, collateral: bigint, seen: boolean): void {
    const row = this.#row(provider);
    if (count > row.openJobs) throw new Refused("SlotUnderflow", [provider, row.openJobs, count]);
    row.openJobs -= count;
    row.exposure -= collateral;
    if (seen) this.touch(provider);
    this.#emit({ name: "SlotsChanged", args: [provider, row.openJobs, row.cap] });
  }

  releaseAndSlash(provider: string, collateral: bigint): bigint {
    const row = this.#row(provider);
    const fromStake = collateral < row.stake ? collateral : row.stake;
    const rest = collateral - fromStake;
    const fromUnbonding = rest < row.unbonding ? rest : row.unbonding;
    row.stake -= fromStake;
    row.unbonding -= fromUnbonding;
    if (row.unbonding === 0n && fromUnbonding !== 0n) row.unbondingAt = 0n;
    const burnt = fromStake + fromUnbonding;
    this.#state.burntStake += burnt;
    this.release(provider, 1n, collateral, false);
    this.#emit({ name: "StakeSlashed", args: [provider, burnt, row.stake] });
    if (row.stake < this.#parameters.minStake && row.active) {
      row.active = false;
      this.#emit({ name: "ProviderDeactivated", args: [provider] });
    }
    return burnt;
  }

  touch(provider: string): void {
    const row = this.#row(provider);
    if (!row.active || this.#state.now - row.lastSeen < this.#parameters.timeToLive / 8n) return;
    row.lastSeen = this.#state.now;
    this.#emit({ name: "Heartbeat", args: [provider] });
  }

  collateralFor(payment: bigint): bigint {
    return (payment * this.#parameters.collateralBps) / BPS;
  }

  isAccountOf(provider: string, account: string): boolean {
    return this.#state.actsFor.get(account) === provider;
  }

  wasAccountOf(provider: string, account: string, time: bigint): boolean {
    const resigned = this.#state.resigned.get(`${provider} ${account}`);
    return this.isAccountOf(provider, account) || (resigned !== undefined && resigned >= time);
  }

  // -------------------------------------------------------------------------------------------------------------- inside

  #take(provider: string, request: SlotRequest): bigint {
    const row = this.#row(provider);
    row.openJobs += 1n;
    row.exposure += this.collateralFor(request.payment);
    this.#emit({ name: "SlotsChanged", args: [provider, row.openJobs, row.cap] });
    return this.#state.current.get(`${provider} ${request.modelKey}`) ?? 0n;
  }

  #refused(refusal: bigint, provider: string, request: SlotRequest): Refused {
    const { maxInputPrice, maxOutputPrice, payment, modelKey } = request;
    if (refusal === Refusal.UnknownProvider) return new Refused("ProviderNotRegistered", [provider]);
    if (refusal === Refusal.Inactive) return new Refused("ProviderInactive", [provider]);
    const row = this.#row(provider);
    if (refusal === Refusal.Stale) {
      return new Refused("ProviderStale", [provider, row.lastSeen, this.#parameters.timeToLive]);
    }
    const offering = this.#offering(provider, modelKey);
    if (offering === undefined) return new Refused("OfferingNotFound", [provider, modelKey]);
    if (refusal === Refusal.PriceAboveLimit) {
      const prices = [offering.inputPrice, offering.outputPrice, maxInputPrice, maxOutputPrice];
      return new Refused("PriceAboveLimit", [provider, ...prices]);
    }
    if (refusal === Refusal.AtCapacity) return new Refused("ProviderAtCapacity", [provider, row.openJobs, row.cap]);
    const headroom = row.stake - row.exposure;
    return new Refused("InsufficientStake", [provider, headroom > 0n ? headroom : 0n, this.collateralFor(payment)]);
  }

  #offering(provider: string, modelKey: string): OfferingRow | undefined {
    const id = this.#state.current.get(`${provider} ${modelKey}`);
    return id === undefined ? undefined : this.#state.records[Number(id) - 1];
  }

  #row(owner: string): ProviderRow {
    const row = this.#state.providers.get(owner);
    if (row === undefined) throw new Refused("ProviderNotRegistered", [owner]);
    return row;
  }

  #own(caller: string): ProviderRow {
    const row = this.#state.providers.get(caller);
    if (row === undefined) throw new Refused("NotProvider", [caller]);
    return row;
  }

  #acting(caller: string): readonly [string, ProviderRow] {
    const owner = this.#state.actsFor.get(caller);
    if (owner === undefined) throw new Refused("NotProvider", [caller]);
    return [owner, this.#row(owner)];
  }

  #appoint(owner: string, operator: string): void {
    refuseIf(operator === ZERO_ADDRESS, "InvalidOperator", operator);
    if (operator === owner) return;
    const employer = this.#state.actsFor.get(operator);
    if (employer !== undefined) throw new Refused("OperatorTaken", [operator, employer]);
    this.#state.actsFor.set(operator, owner);
  }

  /** The row of a market, an empty one if there is none. */
  #market(market: string): MarketRow {
    const row = this.#state.markets.get(market) ?? {
      known: false,
      allowed: false,
      suspended: false,
      allowableFrom: 0n,
    };
    this.#state.markets.set(market, row);
    return row;
  }

  #resign(owner: string, operator: string): void {
    const row = this.#row(owner);
    this.#dismiss(owner, operator);
    row.operator = owner;
    this.#seen(row);
    this.#emit({ name: "OperatorChanged", args: [owner, operator, owner] });
  }

  #dismiss(owner: string, operator: string): void {
    if (operator === owner) return;
    this.#state.actsFor.delete(operator);
    this.#state.resigned.set(`${owner} ${operator}`, this.#state.now);
  }

  #seen(row: ProviderRow): void {
    if (row.active) row.lastSeen = this.#state.now;
  }

  #stake(owner: string, amount: bigint): void {
    moveTokens(this.#state, owner, this.#self, amount);
    refuseIf(amount === 0n, "InvalidAmount", amount);
    const row = this.#row(owner);
    row.stake += amount;
    this.#emit({ name: "Staked", args: [owner, amount, row.stake] });
  }

  #checkPayout(payout: string): void {
    refuseIf(payout === ZERO_ADDRESS || this.isDeadEnd(payout), "InvalidPayout", payout);
  }
}

function checkEndpoint(endpoint: string): void {
  refuseIf(endpoint.length === 0 || endpoint.length > 256, "InvalidEndpoint", BigInt(endpoint.length), 256n);
}

function removeFromSet(set: string[], value: string): void {
  const index = set.indexOf(value);
  const last = set.pop();
  if (last !== undefined && index < set.length) set[index] = last;
}
