import { expect } from "chai";
import { decodeFunctionData, type Address } from "viem";
import { providerRegistryAbi } from "../../../chain/abi/provider-registry.ts";
import type { TransactionOutcome, TransactionQueue, TransactionRequest } from "../../../chain/transactions/types.ts";
import { modelKeyOf } from "../../../protocol/model-key.ts";
import { publicationRequest } from "../../../provider/registration/publication-calls.ts";
import { PublicationError, Publisher } from "../../../provider/registration/publisher.ts";
import type { PublishedOffering, RegisteredProvider } from "../../../provider/registration/registry-reader.ts";

const owner: Address = "0x00000000000000000000000000000000000000A1";
const registry: Address = "0x00000000000000000000000000000000000000E1";
const token: Address = "0x00000000000000000000000000000000000000E2";
const success = { status: "success", hash: `0x${"11".repeat(32)}`, receipt: {} } as unknown as TransactionOutcome;

const wanted = {
  operator: owner,
  payout: owner,
  endpoint: "http://a",
  maxConcurrentJobs: 2,
  offerings: new Map([
    [
      "m",
      {
        model: "m",
        modelKey: modelKeyOf("m"),
        backend: "b",
        backendModel: "m",
        prices: { inputPrice: 1n, outputPrice: 2n },
        contextLength: 10,
      },
    ],
  ]),
  stake: 0n,
  reactivate: false,
};

/** A registry that does what it is sent, and a queue that answers keys it has had from its journal. */
class Place {
  readonly journal: Set<string>;
  provider: RegisteredProvider | undefined;
  readonly offerings = new Map<string, PublishedOffering>();

  constructor(journal: Set<string>) {
    this.journal = journal;
  }

  /** Keys in the order in which they were submitted. */
  readonly submitted: string[] = [];
  /** The kind of step that is given up after it may have been taken: mined at the next submission of its key. */
  givenUp: string | undefined;
  readonly #pending = new Set<string>();

  publisher(chainId = 1, earlier: readonly TransactionRequest[] = []): Publisher {
    for (const { key } of earlier) this.#pending.add(key);
    const queue = {
      address: owner,
      isPending: (key: string) => this.#pending.has(key),
      submit: async (request: TransactionRequest) => {
        this.submitted.push(request.key);
        if (request.kind === this.givenUp && !this.#pending.has(request.key)) {
          this.#pending.add(request.key);
          return await Promise.resolve({ status: "abandoned", message: "no answer", undecided: true });
        }
        this.#pending.delete(request.key);
        if (!this.journal.has(request.key)) this.#mine(request);
        this.journal.add(request.key);
        return await Promise.resolve(success);
      },
      outcomeOf: async () => await Promise.resolve(undefined),
    } as unknown as TransactionQueue;
    return new Publisher({
      reader: {
        provider: async () => await Promise.resolve(this.provider),
        offerings: async () => await Promise.resolve(this.offerings),
        tokens: async () => await Promise.resolve({ balance: 0n, allowance: 0n }),
      },
      queue,
      chainId,
      registry,
      owner,
      rules: { token, minStake: 0n, timeToLive: 600, collateralBps: 0 },
      earlier,
    });
  }

  #mine({ data }: TransactionRequest): void {
    const call = decodeFunctionData({ abi: providerRegistryAbi, data });
    if (call.functionName === "register") {
      const common = { active: true, openJobs: 0, maxConcurrentJobs: 0, lastSeen: 1 };
      this.provider = { ...common, owner, operator: owner, endpoint: call.args[2], stake: call.args[3] };
    } else if (call.functionName === "setMaxConcurrentJobs" && this.provider !== undefined) {
      this.provider = { ...this.provider, maxConcurrentJobs: call.args[0], lastSeen: this.provider.lastSeen + 1 };
    } else if (call.functionName === "setOffering") {
      const [model, inputPrice, outputPrice, contextLength] = call.args;
      const prices = { inputPrice, outputPrice };
      this.offerings.set(model, { offeringId: 1, model, modelKey: modelKeyOf(model), prices, contextLength });
    }
  }
}

describe("Publisher", () => {
  it("publishes on new contracts though its journal has the same steps from earlier ones", async () => {
    const journal = new Set<string>();
    await new Place(journal).publisher().publish(wanted);
    const other = new Place(journal);
    const published = await other.publisher(2).publish(wanted);
    expect([...published.offerings.keys()]).to.deep.equal(["m"]);
  });

  it("does not take what its journal says for what the chain says, and publishes at the next attempt", async () => {
    const journal = new Set<string>();
    await new Place(journal).publisher().publish(wanted);
    // The same chain id and addresses, but nothing of what was sent: a development chain that was started anew.
    const publisher = new Place(journal).publisher();
    const refused = await publisher.publish(wanted).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refused).to.be.instanceOf(PublicationError);
    const published = await publisher.publish(wanted);
    expect(published.provider.maxConcurrentJobs).to.equal(2);
    expect([...published.offerings.keys()]).to.deep.equal(["m"]);
  });

  it("names chain and contract in a transaction's key, so that an outcome elsewhere is not taken for its own", () => {
    const step = { kind: "setMaxConcurrentJobs", maxConcurrentJobs: 2 } as const;
    const targets = [
      { chainId: 1, registry, token },
      { chainId: 2, registry, token },
      { chainId: 1, registry: token, token },
    ];
    expect(new Set(targets.map((target) => publicationRequest(target, step, "new:0").key)).size).to.equal(3);
  });

  it("goes on with a step that the chain may have, instead of sending it twice, such as the stake", async () => {
    const place = new Place(new Set());
    place.givenUp = "setMaxConcurrentJobs";
    const publisher = place.publisher();
    const refused = await publisher.publish(wanted).catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(PublicationError);
    // The chain goes on meanwhile, so that a new plan would have other keys.
    if (place.provider !== undefined) place.provider = { ...place.provider, lastSeen: 50 };
    expect((await publisher.publish(wanted)).provider.maxConcurrentJobs).to.equal(2);
    const caps = place.submitted.filter((key) => key.includes("setMaxConcurrentJobs"));
    expect(caps).to.have.length(2);
    expect(new Set(caps).size).to.equal(1);
  });

  it("goes on with what an earlier process left in doubt before it plans anything", async () => {
    const place = new Place(new Set());
    place.givenUp = "register";
    await place
      .publisher()
      .publish(wanted)
      .catch(() => undefined);
    const [key = ""] = place.submitted;
    const { to, data, kind } = publicationRequest(
      { chainId: 1, registry, token },
      { kind: "register", operator: owner, payout: owner, endpoint: "http://a", stake: 0n },
      "new:0",
    );
    await place.publisher(1, [{ key, to, data, kind }]).publish(wanted);
    expect(place.submitted.filter((other) => other.includes(":register:"))).to.deep.equal([key, key]);
  });
});
