import { expect } from "chai";
import { systemClock } from "../../../chain/system-clock.ts";
import type { PostOutcome } from "../../../gateway/jobs/escrow-calls.ts";
import type { EscrowPlan } from "../../../gateway/jobs/escrow-plan.ts";
import type { JobDocument } from "../../../gateway/jobs/job-document.ts";
import { JobPosting, type JobPostingParts } from "../../../gateway/jobs/job-posting.ts";
import { ChainTime } from "../../../gateway/jobs/chain-time.ts";
import { goodJson } from "../../support/upstream-scripts.ts";
import { until } from "../../support/until.ts";
import { fakeTerms } from "../support/fake-chain.ts";
import { acknowledged, scriptedModel } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

const body = { model: scriptedModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 50 };

describe("the post of a job", () => {
  describe("of a request", () => {
    let place: TestGateway;

    beforeEach(async () => {
      place = await startTestGateway({ providers: [acknowledged(goodJson)], janitorMs: 20 });
    });

    afterEach(async () => {
      await place.close();
    });

    const ask = async (headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
      await postJson(`${place.url}/v1/chat/completions`, body, { headers });

    it("keeps no client waiting beyond its own time, nor a patient one for ever, while no block comes", async () => {
      await (await ask({ "x-stainless-timeout": "5" })).text();
      expect(place.chain.posts[0]?.answerWithinMs).to.be.within(1, 5000);
      await (await ask()).text();
      expect(place.chain.posts[1]?.answerWithinMs).to.equal(60_000);
    });

    it("is watched to its end when the chain says that it has the job but does not show it yet", async () => {
      place.chain.postFault = () => ({ kind: "failed", errorName: "JobAlreadyPosted", message: "JobAlreadyPosted" });
      expect((await ask()).status).to.equal(503);
      const state = (): string | undefined =>
        [...place.journal.jobs.values()].map(({ document }) => JSON.parse(document) as JobDocument)[0]?.attempts[0]
          ?.state;
      await until("the janitor has looked", () => place.chain.calls.length > 0);
      expect(state()).to.equal("abandoned");
      const jobId = place.chain.mineLate(0);
      place.chain.advance(200);
      await until("its money is asked for", () => place.chain.calls.includes("requestCancel"), 15_000);
      place.chain.advance(62);
      await until("it is back", () => place.chain.jobs.get(jobId)?.status === "Cancelled", 15_000);
    });
  });

  describe("that waits for a deposit", () => {
    const refused: PostOutcome = { kind: "insufficient_balance", free: 0n, required: 5n };
    const plan = { modelId: "m", candidates: [], maxPayment: 5n } as unknown as EscrowPlan;
    let waits: AbortSignal | undefined;

    beforeEach(() => {
      waits = undefined;
    });

    /** A post that the chain refuses for want of money, and a deposit that never comes. */
    async function post(parts: Pick<JobPostingParts, "leftMs" | "signal">): Promise<PostOutcome> {
      const posting = new JobPosting({
        context: {
          clock: systemClock,
          chainTime: new ChainTime(systemClock),
          limits: { deadlineSeconds: 600 },
          terms: () => fakeTerms,
          calls: { jobIdOf: () => "0x01", post: async () => await Promise.resolve(refused) },
          treasury: {
            topUp: async (_required: bigint, signal: AbortSignal) => {
              waits = signal;
              return await Promise.withResolvers<boolean>().promise;
            },
          },
          nextNonce: () => 1n,
        },
        request: { nonce: 1n, id: "0x01" },
        record: {
          document: { attempts: [] },
          addAttempt: () => undefined,
          updateAttempt: () => undefined,
          save: async () => await Promise.resolve(),
        },
        tell: () => undefined,
        ...parts,
      } as unknown as JobPostingParts);
      return (await posting.post(plan)).outcome;
    }

    it("does not wait beyond the request's time, nor have money moved for it after that", async () => {
      expect(await post({ leftMs: () => 50, signal: new AbortController().signal })).to.deep.equal(refused);
      expect(waits?.aborted).to.equal(true);
    });

    it("does not post for a client that has gone meanwhile", async () => {
      const client = new AbortController();
      const posted = post({ leftMs: () => 60_000, signal: client.signal });
      await until("it waits", () => waits?.aborted === false);
      client.abort();
      expect(await posted).to.deep.equal(refused);
      expect(waits?.aborted).to.equal(true);
    });
  });
});
