import type { Address, Hex } from "viem";
import { modelKeyOf } from "../../protocol/model-key.ts";
import { escrowEvent, type FakeEvent, jobNumber, joining, person, registryEvent } from "./fake-chain.ts";

/** One thing that happens, chosen by small numbers so that test runs shrink well: `who` and `what` are taken modulo what exists. */
export interface Happening {
  readonly kind:
    | "join"
    | "leave"
    | "return"
    | "beat"
    | "move"
    | "operate"
    | "cap"
    | "offer"
    | "withdraw"
    | "stake"
    | "post"
    | "end";
  readonly who: number;
  readonly what: number;
}

/** All kinds of happenings. */
export const happeningKinds = [
  "join",
  "leave",
  "return",
  "beat",
  "move",
  "operate",
  "cap",
  "offer",
  "withdraw",
  "stake",
  "post",
  "end",
] as const satisfies readonly Happening["kind"][];

interface Member {
  readonly address: Address;
  active: boolean;
  generation: number;
  cap: number;
  openJobs: number;
  operator: Address;
  offers: Map<string, number>;
}

interface Job {
  readonly id: Hex;
  readonly provider: number;
}

const models = ["alpha", "beta/7b", "gamma é"];

/** A registry and an escrow that emit the events that the contracts would, for made-up happenings. Copied to fork it. */
export class FakeMarket {
  #members: Member[] = [];
  #jobs: Job[] = [];
  #offerings = 0;
  #posted = 0;

  copy(): FakeMarket {
    const copy = new FakeMarket();
    copy.#members = this.#members.map((member) => ({ ...member, offers: new Map(member.offers) }));
    copy.#jobs = [...this.#jobs];
    copy.#offerings = this.#offerings;
    copy.#posted = this.#posted;
    return copy;
  }

  /** The events of a happening; none when it is impossible now. */
  happen({ kind, who, what }: Happening): FakeEvent[] {
    if (kind === "join") return this.#join(who);
    if (kind === "end") return this.#end(who, what);
    const member = this.#members[who % Math.max(1, this.#members.length)];
    if (member === undefined) return [];
    const provider = member.address;
    const model = models[what % models.length] ?? "alpha";
    switch (kind) {
      case "leave":
        if (!member.active) return [];
        member.active = false;
        return [registryEvent("ProviderDeactivated", { provider })];
      case "return":
        if (member.active) return [];
        member.active = true;
        member.generation += 1;
        return [registryEvent("ProviderReactivated", { provider, generation: member.generation })];
      case "beat":
        return member.active ? [registryEvent("Heartbeat", { provider })] : [];
      case "move":
        return what % 2 === 0
          ? [registryEvent("EndpointChanged", { provider, endpoint: `http://moved-${what}.test` })]
          : [registryEvent("PayoutChanged", { provider, payout: person(1000 + what) })];
      case "operate": {
        const previousOperator = member.operator;
        member.operator = person(2000 + what);
        return [registryEvent("OperatorChanged", { provider, previousOperator, operator: member.operator })];
      }
      case "cap": {
        const previousMax = member.cap;
        member.cap = what % 5;
        return [
          registryEvent("MaxConcurrentJobsUpdated", {
            provider,
            previousMax,
            maxConcurrentJobs: member.cap,
            openJobs: member.openJobs,
          }),
        ];
      }
      case "offer":
        return [this.#offer(member, model, BigInt(what + 1))];
      case "withdraw": {
        const offeringId = member.offers.get(model);
        if (offeringId === undefined) return [];
        member.offers.delete(model);
        return [registryEvent("OfferingRemoved", { provider, modelKey: modelKeyOf(model), offeringId })];
      }
      case "stake":
        return (
          [
            [registryEvent("Staked", { provider, amount: 1n, stake: 1n })],
            [registryEvent("UnbondingStarted", { provider, amount: 1n, stake: 0n, unbondingAt: 1 })],
            [registryEvent("StakeWithdrawn", { provider, to: provider, amount: 1n })],
          ][what % 3] ?? []
        );
      case "post":
        return this.#post(member, who % this.#members.length, model);
    }
  }

  #join(who: number): FakeEvent[] {
    const index = who % 12;
    const address = person(index);
    if (this.#members.some((member) => member.address === address)) return [];
    this.#offerings += 1;
    this.#members.push({
      address,
      active: true,
      generation: 1,
      cap: 4,
      openJobs: 0,
      operator: address,
      offers: new Map([["alpha", this.#offerings]]),
    });
    return joining(index, this.#offerings, ["alpha"]);
  }

  #offer(member: Member, modelId: string, price: bigint): FakeEvent {
    this.#offerings += 1;
    member.offers.set(modelId, this.#offerings);
    return registryEvent("OfferingSet", {
      provider: member.address,
      modelKey: modelKeyOf(modelId),
      offeringId: this.#offerings,
      inputPrice: price,
      outputPrice: price * 2n,
      contextLength: 4096,
      modelId,
    });
  }

  #slots(member: Member): FakeEvent {
    return registryEvent("SlotsChanged", {
      provider: member.address,
      openJobs: member.openJobs,
      maxConcurrentJobs: member.cap,
    });
  }

  #post(member: Member, index: number, model: string): FakeEvent[] {
    const offeringId = member.offers.get(model);
    if (offeringId === undefined || !member.active || (member.cap !== 0 && member.openJobs >= member.cap)) return [];
    this.#posted += 1;
    const id = jobNumber(this.#posted);
    this.#jobs.push({ id, provider: index });
    member.openJobs += 1;
    const posted = escrowEvent("JobPosted", {
      jobId: id,
      client: person(500 + (this.#posted % 12)),
      provider: member.address,
      offeringId,
      maxPayment: 100n,
      unsignedLimit: 50n,
      deadline: 2_000_000,
    });
    return [this.#slots(member), posted];
  }

  #end(who: number, what: number): FakeEvent[] {
    const at = who % Math.max(1, this.#jobs.length);
    const job = this.#jobs[at];
    const member = job === undefined ? undefined : this.#members[job.provider];
    if (job === undefined || member === undefined) return [];
    const names = { jobId: job.id, provider: member.address };
    if (what % 8 === 0) return [escrowEvent("JobAcknowledged", names)];
    if (what % 8 === 1) return [escrowEvent("JobCancelRequested", { ...names, respondBy: 1_500_000 })];
    this.#jobs.splice(at, 1);
    member.openJobs -= 1;
    const completed = (signed: boolean): FakeEvent =>
      escrowEvent("JobCompleted", {
        ...names,
        payment: BigInt(what),
        inputTokens: 1n,
        outputTokens: 2n,
        responseHash: job.id,
        signed,
      });
    const ends: readonly FakeEvent[] = [
      completed(true),
      completed(false),
      escrowEvent("JobDeclined", names),
      escrowEvent("JobCancelled", names),
      escrowEvent("JobExpired", names),
      escrowEvent("JobSlashed", { ...names, burnt: 7n }),
    ];
    const end = ends[(what % 8) - 2];
    return end === undefined ? [] : [this.#slots(member), end];
  }
}
