import { expect } from "chai";
import type { AttemptDocument, JobDocument } from "../../../gateway/jobs/job-document.ts";
import { jobView } from "../../../gateway/jobs/job-view.ts";
import { jobNumber, person } from "../../support/fake-chain.ts";

function attempt(index: number, change: Partial<AttemptDocument>): AttemptDocument {
  return {
    jobId: jobNumber(index),
    nonce: String(index),
    state: "abandoned",
    modelId: "m",
    candidates: [person(index)],
    maxPayment: "1000",
    deadline: 1,
    provider: person(index),
    ...change,
  };
}

function view(...attempts: AttemptDocument[]) {
  const document: JobDocument = {
    version: 1,
    id: jobNumber(1),
    kind: "chat",
    model: "m",
    stream: false,
    source: "jobs",
    requestId: "r",
    owner: null,
    createdAt: 0,
    attempts,
    events: [],
    outcome: { status: "failed", code: "upstream_error" },
    result: null,
  };
  return jobView(document);
}

describe("the view of a request", () => {
  it("shows what was paid for it, also where the provider claimed without our receipt", () => {
    const paid = view(attempt(1, { state: "declined" }), attempt(2, { state: "settled", payment: "300" }));
    expect(paid).to.include({ payment: "300", provider: person(2), jobId: jobNumber(2), status: "failed" });
  });

  it("shows the job that answered before one that was given up and claimed", () => {
    const receipt = {
      usage: { inputTokens: 1, outputTokens: 1 },
      responseHash: jobNumber(9),
      signature: "0x",
    } as const;
    const answered = view(
      attempt(1, { state: "settled", payment: "5" }),
      attempt(2, { state: "settled", payment: "300", receipt }),
    );
    expect(answered).to.include({ payment: "300", provider: person(2) });
  });
});
