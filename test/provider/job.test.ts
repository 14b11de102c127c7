import { expect } from "chai";
import { bodyHash } from "../../protocol/body-hash.ts";
import { decodeDelivered, usageCommentPrefix, wireHeaders } from "../../protocol/wire.ts";
import { until } from "../support/until.ts";
import { jobOnChain, type Market, startMarket, testModel } from "./support/market.ts";
import { startNode, type TestNode } from "./support/node.ts";
import { goodAnswer, goodStream, type ScriptedBackend, startScriptedBackend } from "./support/scripted-backend.ts";

const completed = 4;

export function chatBody(fields: object = {}): string {
  return JSON.stringify({ model: testModel, messages: [{ role: "user", content: "Say something." }], ...fields });
}

describe("a job at a provider node", () => {
  let market: Market;
  let backend: ScriptedBackend;
  let node: TestNode;

  before(async function () {
    this.timeout(60_000);
    market = await startMarket();
    backend = await startScriptedBackend(goodStream(["Hello", " there", "!"]));
    node = await startNode({ market, backendUrl: backend.url, key: await market.providerKey() });
  });

  after(async () => {
    await node.close();
    await backend.close();
    await market.stop();
  });

  it("streams the backend's bytes unchanged, states the usage, and is settled to the token with the client's receipt", async () => {
    const job = await market.client.post(node.address);
    const response = await market.client.request(node.url, job, chatBody({ stream: true }));
    expect(response.status).to.equal(200);
    expect(response.headers.get(wireHeaders.acknowledgement)).to.match(/^0x[0-9a-f]{130}$/);
    const text = await response.text();
    const at = text.indexOf(`: ${usageCommentPrefix}`);
    const statement = decodeDelivered(text.slice(at + 2 + usageCommentPrefix.length).trim());
    expect(statement).to.include({ inputTokens: 7, outputTokens: 3 });
    expect(statement?.responseHash).to.equal(bodyHash(text.slice(0, at)));
    const receipt = await market.client.sendReceipt(
      node.url,
      node.address,
      job.jobId,
      { inputTokens: 7, outputTokens: 3 },
      bodyHash(text.slice(0, at)),
    );
    expect(receipt.status, await receipt.text()).to.equal(200);
    await until("the job is completed", async () => (await jobOnChain(market, job.jobId)).status === completed);
  });

  it("answers without streaming, with the usage in a header", async () => {
    backend.use(goodAnswer("Hello"));
    const job = await market.client.post(node.address);
    const response = await market.client.request(node.url, job, chatBody());
    const text = await response.text();
    expect(response.status, text).to.equal(200);
    const statement = decodeDelivered(response.headers.get(wireHeaders.usage) ?? "");
    expect(statement).to.include({ inputTokens: 7, outputTokens: 3, responseHash: bodyHash(text) });
  });
});
