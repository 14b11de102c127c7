import { expect } from "chai";
import { type ProgressEvent, progressModes } from "../../protocol/progress.ts";

/** One of each: the compiler refuses this table when a type is added and not listed. */
const examples: { readonly [T in ProgressEvent["type"]]: Extract<ProgressEvent, { type: T }> } = {
  selecting_provider: { type: "selecting_provider", model: "m" },
  waiting_for_capacity: {
    type: "waiting_for_capacity",
    model: "m",
    busyProviders: 2,
    position: 1,
    waitedMs: 5,
    limitMs: 10,
  },
  provider_selected: {
    type: "provider_selected",
    model: "m",
    provider: "0x01",
    policy: "cheapest",
    reason: "least_cost",
  },
  posting_job: { type: "posting_job", model: "m", candidates: ["0x01"], maxPayment: "12345678901234567890123" },
  job_posted: {
    type: "job_posted",
    jobId: "0x02",
    provider: "0x01",
    maxPayment: "1",
    transactionHash: "0x03",
    blockNumber: 4,
  },
  provider_acked: { type: "provider_acked", jobId: "0x02", provider: "0x01" },
  delivered: {
    type: "delivered",
    jobId: "0x02",
    provider: "0x01",
    usage: { inputTokens: 1, outputTokens: 2 },
    responseHash: "0x05",
  },
  settled: {
    type: "settled",
    jobId: "0x02",
    provider: "0x01",
    usage: { inputTokens: 1, outputTokens: 2 },
    payment: "7",
    transactionHash: "0x06",
  },
  provider_failed: { type: "provider_failed", provider: "0x01", code: "cut", message: "words" },
  failed: { type: "failed", code: "capacity_timeout", message: "words" },
};

describe("progress events", () => {
  it("survive JSON unchanged: amounts are text, as a number of JSON cannot hold them", () => {
    for (const event of Object.values(examples)) expect(JSON.parse(JSON.stringify(event))).to.deep.equal(event);
  });

  it("are called by their own type, so that an SSE event name tells what its data is", () => {
    for (const [name, event] of Object.entries(examples)) expect(event.type).to.equal(name);
  });

  it("never use a name that SDKs give a meaning of its own", () => {
    for (const name of Object.keys(examples)) expect(["error", "done", "message", "ping"]).to.not.include(name);
  });

  it("know four ways of being shown", () => {
    expect([...progressModes]).to.deep.equal(["comment", "event", "chunk", "off"]);
  });
});
