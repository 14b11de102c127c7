import { expect } from "chai";
import { oddStreams, scriptedText, toolCalls } from "../../support/upstream-scripts.ts";
import { acknowledged, scriptedModel } from "../support/scripted-provider.ts";
import { startTestGateway, type TestGateway } from "../support/test-gateway.ts";
import { streamingClients } from "./clients.ts";

/** Where usage may ride: the other oddities concern the text alone, and are held against every client once. */
const withUsage: ReadonlySet<string> = new Set(["plain", "CRLF line ends", "usage that rides on a chunk with choices"]);

for (const client of streamingClients) {
  describe(`${client.name}, through the gateway`, () => {
    let place: TestGateway;

    afterEach(async () => {
      await place.close();
    });

    for (const [name, script] of Object.entries(oddStreams)) {
      it(`reads a stream with: ${name}`, async () => {
        place = await startTestGateway({ providers: [acknowledged(script)] });
        const answer = await client.stream({ url: place.url, model: scriptedModel });
        expect(answer.text).to.equal(scriptedText);
      });

      if (!withUsage.has(name)) continue;
      it(`gets the usage that it asks for, of a stream with: ${name}`, async () => {
        place = await startTestGateway({ providers: [acknowledged(script)] });
        const answer = await client.stream({ url: place.url, model: scriptedModel, withUsage: true });
        expect(answer.text).to.equal(scriptedText);
        expect(answer.usage).to.deep.equal({ input: 7, output: 3 });
      });
    }

    for (const mode of ["comment", "event", "chunk", "off"] as const) {
      it(`is not confused by progress in mode ${mode}`, async () => {
        place = await startTestGateway({ providers: [acknowledged(oddStreams.plain)], settings: { commitGraceMs: 0 } });
        const posted = Promise.withResolvers<undefined>();
        place.chain.postFault = async () => {
          await posted.promise;
          return undefined;
        };
        const asked = client.stream({ url: place.url, model: scriptedModel, headers: { "x-t4t-progress": mode } });
        // Long enough for the status line and the first frames to be out before the answer begins.
        setTimeout(() => posted.resolve(undefined), 30);
        const answer = await asked;
        expect(answer.text).to.equal(scriptedText);
        expect(new Set(answer.ids).size, "one id for inert and real chunks").to.be.at.most(1);
      });
    }

    it("joins the pieces of tool calls that come without an index", async () => {
      const deltas = [
        { id: "call_a", type: "function", function: { name: "first", arguments: '{"x":' } },
        { function: { arguments: "1}" } },
        { id: "call_b", type: "function", function: { name: "second", arguments: "{}" } },
      ];
      place = await startTestGateway({ providers: [acknowledged(toolCalls(deltas))] });
      const answer = await client.stream({ url: place.url, model: scriptedModel });
      expect(answer.toolCalls).to.deep.equal([
        { name: "first", arguments: '{"x":1}' },
        { name: "second", arguments: "{}" },
      ]);
    });
  });
}
