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

  publisher(chainId = 1): Publisher {
    const queue = {
      address: owner,
      submit: async (request: TransactionRequest) => {
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
      earlier: [],
    });
  }

  #mine({ data }: TransactionRequest): void {
    const call = decodeFunctionData({ abi: providerRegistryAbi, data });
    if (call.functionName === "register") {
      const common = { active: true, openJobs: 0, maxConcurrentJobs: 0, lastSeen: 1 };
      this.provider = { ...common, owner, operator: owner, endpoint: call.args[2], stake: call.args[3] };
    } else if (call.functionName === "setMaxConcurrentJobs" && this.provider !== undefined) {
      this.provider = { ...this.provider, maxConcurrentJobs: call.args[0] };
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
});
