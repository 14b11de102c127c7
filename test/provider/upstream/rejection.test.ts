import { expect } from "chai";
import { backendRejection } from "../../../provider/upstream/rejection.ts";

const errorOf = (body: unknown): Record<string, unknown> => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return (JSON.parse(backendRejection(text).toBody()) as { error: Record<string, unknown> }).error;
};

describe("a backend's refusal of a request", () => {
  it("keeps its message, parameter and code", () => {
    expect(
      errorOf({ error: { message: "bad tool", type: "x", param: "tools", code: "invalid_schema" } }),
    ).to.deep.equal({
      message: "bad tool",
      type: "invalid_request_error",
      param: "tools",
      code: "backend_rejected",
      backend_code: "invalid_schema",
    });
  });

  for (const [backend, body] of [
    ["OpenAI", { error: { message: "too long", param: "messages", code: "context_length_exceeded" } }],
    ["vLLM", { object: "error", message: "This model's maximum context length is 4096 tokens.", code: 400 }],
    ["llama.cpp", { error: { code: 400, message: "the request exceeds it", type: "exceed_context_size_error" } }],
    ["Ollama", { error: "the input length exceeds the context length" }],
  ] as const) {
    it(`has one code for a prompt that is too long, also from ${backend}`, () => {
      expect(errorOf(body)).to.include({ code: "backend_rejected", backend_code: "context_length_exceeded" });
    });
  }

  it("has no code where the backend gave none that is a short word, whatever it sent", () => {
    for (const body of ["", "<html>", "[]", "null", { error: { code: 400 } }, { error: { code: "x".repeat(65) } }]) {
      expect(errorOf(body), JSON.stringify(body)).to.not.have.property("backend_code");
    }
  });
});
