import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { PolicyFileError } from "../../../gateway/routing/policy-file.ts";
import { chunk, end, head, hold } from "../../support/scripted-upstream.ts";
import { chunkData, frame, goodJson } from "../../support/upstream-scripts.ts";
import { acknowledged, scriptedModel } from "../support/scripted-provider.ts";
import { postJson, startTestGateway, type TestGateway } from "../support/test-gateway.ts";

const good = acknowledged(goodJson);
const request = { model: scriptedModel, messages: [{ role: "user", content: "Hello" }], max_tokens: 5 };

describe("the routing policy file", () => {
  let folder: string;
  let file: string;
  let place: TestGateway | undefined;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "t4t-routing-"));
    file = join(folder, "routing.json");
  });

  afterEach(async () => {
    await place?.close();
    place = undefined;
    await rm(folder, { recursive: true });
  });

  async function policyOf(headers: Record<string, string> = {}): Promise<string> {
    const response = await postJson(`${place?.url ?? ""}/v1/chat/completions`, request, {
      headers: { "x-t4t-debug": "true", ...headers },
    });
    await response.text();
    expect(response.status).to.equal(200);
    return (JSON.parse(response.headers.get("x-t4t-decision") ?? "null") as { policy: string }).policy;
  }

  it("chooses by request, then by model, then by default, and is read again without a restart", async () => {
    await writeFile(
      file,
      JSON.stringify({
        default: { name: "cheapest" },
        models: { [scriptedModel]: { name: "least_inflight" } },
        requests: { sticky: { name: "consistent_hash" } },
      }),
    );
    place = await startTestGateway({ providers: [good], settings: { routingFile: file } });
    expect(await policyOf()).to.equal("least_inflight");
    expect(await policyOf({ "x-t4t-routing": "sticky" })).to.equal("consistent_hash");
    await writeFile(file, JSON.stringify({ default: { name: "cheapest" } }));
    place.gateway.reload();
    expect(await policyOf()).to.equal("cheapest");
    await writeFile(file, "{ broken");
    place.gateway.reload();
    expect(await policyOf(), "a faulty file changes nothing").to.equal("cheapest");
  });

  it("is read again under a running stream without touching it", async () => {
    await writeFile(file, JSON.stringify({ default: { name: "least_inflight" } }));
    const reloaded = Promise.withResolvers<undefined>();
    const script = acknowledged([
      head(200, { "content-type": "text/event-stream" }),
      chunk(frame(chunkData({ content: "before" }))),
      hold(reloaded.promise),
      chunk(frame(chunkData({ content: " and after" })) + frame(chunkData({}, "stop")) + frame("[DONE]")),
      end,
    ]);
    place = await startTestGateway({ providers: [script], settings: { routingFile: file } });
    const response = await postJson(`${place.url}/v1/chat/completions`, { ...request, stream: true });
    const reader = (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("before")) text += (await reader.read()).value ?? "";
    await writeFile(file, JSON.stringify({ default: { name: "pulsar", seed: 7 } }));
    place.gateway.reload();
    reloaded.resolve(undefined);
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    expect(text).to.include(" and after").and.to.include("[DONE]").and.to.not.include("error");
  });

  it("counts each decision by its policy, branch and verdict, and those left out by reason", async () => {
    await writeFile(file, JSON.stringify({ default: { name: "least_inflight" } }));
    place = await startTestGateway({ providers: [good], settings: { routingFile: file } });
    await policyOf();
    const unknown = await postJson(`${place.url}/v1/chat/completions`, { ...request, model: "nobody/offers-it" });
    expect(unknown.status).to.equal(404);
    const metrics = await (await fetch(`${place.url}/metrics`)).text();
    expect(metrics).to.match(
      /t4t_gateway_decisions_total\{policy="least_inflight",reason="(least_loaded|measure_unknown)",verdict="ready"\} 1/,
    );
    expect(metrics).to.include(
      't4t_gateway_decisions_total{policy="least_inflight",reason="no_candidate",verdict="none"} 1',
    );
  });

  it("serves a model whose providers have not been measured yet, as only serving measures them", async () => {
    await writeFile(file, JSON.stringify({ default: { name: "pulsar" } }));
    place = await startTestGateway({ providers: [good], settings: { routingFile: file } });
    const response = await postJson(`${place.url}/v1/chat/completions`, request);
    expect(response.status, await response.text()).to.equal(200);
  });

  it("is refused at start with its faults when it cannot be used, by the names of variable and file", async () => {
    const refusal = async (routingFile: string): Promise<string> => {
      const failure: unknown = await startTestGateway({ settings: { routingFile } }).catch((error: unknown) => error);
      expect(failure).to.be.instanceOf(PolicyFileError);
      return (failure as PolicyFileError).message;
    };
    await writeFile(file, JSON.stringify({ default: { name: "cheapest", speed: 5 } }));
    expect(await refusal(file))
      .to.include("T4T_ROUTING_FILE")
      .and.include(file)
      .and.include("speed");
    for (const nowhere of [folder, join(folder, "not-there.json")]) {
      expect(await refusal(nowhere)).to.equal(`T4T_ROUTING_FILE names ${nowhere}, which cannot be read`);
    }
  });
});
