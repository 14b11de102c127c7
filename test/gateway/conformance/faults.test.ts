import { expect } from "chai";
import { earlyFaults, lateFaults, oddStreams, scriptedText } from "../../support/upstream-scripts.ts";
import { acknowledged, scriptedModel } from "../support/scripted-provider.ts";
import { startTestGateway, type TestGateway } from "../support/test-gateway.ts";
import { streamingClients } from "./clients.ts";

const good = acknowledged(oddStreams.plain);
const impatient = { ackTimeoutMs: 300, idleTimeoutMs: 300 };

describe("a provider that fails before its first byte", () => {
  let place: TestGateway;

  afterEach(async () => {
    await place.close();
  });

  for (const [name, script] of Object.entries(earlyFaults)) {
    it(`is replaced without the client's noticing: ${name}`, async () => {
      place = await startTestGateway({ providers: [acknowledged(script), good], settings: impatient });
      const [client] = streamingClients;
      const answer = await client?.stream({ url: place.url, model: scriptedModel });
      expect(answer?.text).to.equal(scriptedText);
      expect(place.providers[0]?.completions.length, "never asked twice").to.be.at.most(1);
      expect(place.providers[1]?.completions).to.have.length(1);
    });
  }
});

for (const client of streamingClients) {
  describe(`${client.name}, told of a failure`, () => {
    let place: TestGateway;

    afterEach(async () => {
      await place.close();
    });

    async function failure(): Promise<unknown> {
      try {
        return { passedAs: (await client.stream({ url: place.url, model: scriptedModel })).text };
      } catch (error) {
        return error;
      }
    }

    for (const [name, script] of Object.entries(lateFaults)) {
      // Costs a time-out, and looks to every client like the other faults: one of them will do.
      if (name === "silence" && client !== streamingClients[0]) continue;
      it(`throws when the answer breaks in the middle: ${name}`, async () => {
        place = await startTestGateway({ providers: [acknowledged(script), good], settings: impatient });
        expect(await failure()).to.be.an("error");
        expect(place.providers[1]?.completions, "no second provider after the first byte").to.have.length(0);
      });
    }

    it("throws when nobody is left after a failure", async () => {
      place = await startTestGateway({ providers: [acknowledged(earlyFaults["status 500"])], settings: impatient });
      expect(await failure())
        .to.be.an("error")
        .with.property("message")
        .that.matches(/provider/i);
    });

    it("throws for a failure after the status line went", async () => {
      place = await startTestGateway({
        providers: [acknowledged(earlyFaults["status 500"])],
        settings: { ...impatient, commitGraceMs: 0 },
      });
      expect(await failure()).to.be.an("error");
    });
  });
}
