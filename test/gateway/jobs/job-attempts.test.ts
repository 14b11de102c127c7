import { expect } from "chai";
import { pino } from "pino";
import { until } from "../../support/until.ts";
import { chat, errorOf, goodAnswer, plain } from "../support/requests.ts";
import { startTestGateway, type TestGateway } from "../support/test-gateway.ts";

describe("a request", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  describe("and its money", () => {
    it("locks what the dearest candidate can cost, and allows no higher price", async () => {
      place = await startTestGateway({ providers: [goodAnswer, goodAnswer] });
      await (await chat(place, plain)).text();
      const plan = place.chain.posts[0]?.plan;
      expect(plan?.maxInputPrice).to.equal(2_000_000n);
      expect(plan?.candidates).to.have.length(2);
      // 20 output tokens and the prompt's bytes, at 2 wei a token, with a fifth on top.
      expect(plan?.maxPayment).to.be.greaterThan(2n * 20n);
      expect(plan?.unsignedLimit).to.equal(((plan?.maxPayment ?? 0n) * 100n) / 1000n);
    });

    it("reckons with every choice that it asks for", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      await (await chat(place, { ...plain, max_tokens: 1000 })).text();
      await (await chat(place, { ...plain, max_tokens: 1000, n: 4 })).text();
      const [one, four] = place.chain.posts.map(({ plan }) => plan.maxPayment);
      expect(Number(four) / Number(one)).to.be.greaterThan(2.5);
    });

    it("is refused with 413 when it could cost more than the operator allows", async () => {
      place = await startTestGateway({ providers: [goodAnswer], settings: { maxEscrowPerJob: 100n } });
      const response = await chat(place, { ...plain, max_tokens: 5000 });
      expect(response.status).to.equal(413);
      expect(await errorOf(response)).to.include({ code: "escrow_limit_exceeded", param: "max_tokens" });
      expect(place.chain.posts).to.have.length(0);
    });

    it("is told once in the log why a provider at a private address is left out, and how to have it called", async () => {
      const lines: string[] = [];
      const logger = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
      place = await startTestGateway({ providers: [goodAnswer], settings: { allowPrivateEndpoints: false }, logger });
      for (let request = 0; request < 2; request += 1) expect((await chat(place, plain)).status).to.equal(404);
      const told = lines.filter((line) => line.includes("endpoint is never called"));
      expect(told).to.have.length(1);
      expect(JSON.parse(told[0] ?? "")).to.include({
        provider: place.providers[0]?.address,
        reason: "private_address",
      });
      expect(told[0]).to.include("T4T_ALLOW_PRIVATE_ENDPOINTS=true");
      // A list that shows what no request can have would send clients into that 404.
      const listed = (await (await fetch(`${place.url}/v1/models`)).json()) as { readonly data: readonly unknown[] };
      expect(listed.data).to.have.length(0);
    });

    it("is refused with 402 when the escrow account is empty", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.postFault = () => ({ kind: "insufficient_balance", free: 1n, required: 50n });
      const response = await chat(place, plain);
      expect(response.status).to.equal(402);
      expect(response.headers.get("x-should-retry")).to.equal("false");
      expect((await errorOf(response)).code).to.equal("insufficient_escrow_balance");
    });

    it("is refused for the missing gas, not for the tokens, where the wallet has no gas to bring its tokens into the escrow", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.postFault = () => ({ kind: "insufficient_balance", free: 0n, required: 50n });
      place.chain.hasGas = false;
      const response = await chat(place, plain);
      expect(response.status).to.equal(402);
      expect((await errorOf(response)).message).to.include("gas");
    });

    it("is posted after the account was filled up, when the operator wants that", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      let isFull = false;
      place.chain.postFault = () => (isFull ? undefined : { kind: "insufficient_balance", free: 1n, required: 50n });
      place.chain.topUp = (required) => {
        isFull = required === 50n;
        return isFull;
      };
      expect((await chat(place, plain)).status).to.equal(200);
    });

    it("is refused with 402 when the wallet cannot pay for the transaction, with 503 when the chain is gone", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.postFault = () => ({ kind: "abandoned", message: "sender has not enough funds", undecided: false });
      place.chain.hasGas = false;
      expect((await chat(place, plain)).status).to.equal(402);
      place.chain.hasGas = true;
      const response = await chat(place, plain);
      expect(response.status).to.equal(503);
      expect((await errorOf(response)).code).to.equal("chain_unavailable");
      expect(response.headers.get("retry-after")).to.equal("5");
    });

    it("is answered as soon as a block holds it, however many confirmations the operator asks for", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      const confirmed = Promise.withResolvers<undefined>();
      place.chain.confirmed = confirmed.promise;
      expect((await chat(place, plain)).status).to.equal(200);
      confirmed.resolve(undefined);
    });

    it("sets a deadline by chain time and corrects it once when the chain disagrees", async () => {
      place = await startTestGateway({ providers: [goodAnswer] });
      place.chain.advance(100_000);
      let refused = false;
      place.chain.postFault = ({ deadline }) => {
        if (refused) return undefined;
        refused = true;
        return { kind: "bad_deadline", earliest: deadline + 1000, latest: deadline + 2000 };
      };
      expect((await chat(place, plain)).status).to.equal(200);
      const [first, second] = place.chain.posts.map(({ deadline }) => deadline);
      expect(first).to.be.greaterThan(Date.now() / 1000 + 100_000);
      expect(second).to.equal((first ?? 0) + 1030);
    });

    it("costs nothing but another look when the chain finds the provider full", async () => {
      place = await startTestGateway({ providers: [goodAnswer, goodAnswer] });
      const [first, second] = place.providers;
      let refusals = 0;
      place.chain.postFault = ({ plan }) => {
        if (refusals > 0) return undefined;
        refusals += 1;
        return {
          kind: "refused",
          refusals: new Map(
            plan.candidates.map(({ provider }) => [provider, provider === first?.address ? "full" : "unable"]),
          ),
        };
      };
      place.chain.setProvider({ ...place.chain.provider(second?.address ?? "0x"), active: false });
      const asked = chat(place, plain);
      await until("the first post was refused", () => refusals === 1);
      // The index moves on: the provider is looked at afresh.
      place.chain.publish();
      expect((await asked).status).to.equal(200);
      expect(
        place.chain.posts.map(({ nonce }) => nonce),
        "the id of a job that was never posted is used again",
      ).to.deep.equal([place.chain.posts[0]?.nonce, place.chain.posts[0]?.nonce]);
    });
  });
});
