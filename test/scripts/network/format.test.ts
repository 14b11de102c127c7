import { expect } from "chai";
import { describeProgress, formatAmount } from "../../../scripts/network/format.ts";

const unit = { symbol: "TEST", decimals: 6 };
const provider = "0x0000000000000000000000000000000000000001";

describe("amounts in the output of npm start", () => {
  it("are in tokens, not in wei, whatever decimals the token has", () => {
    expect(formatAmount(1_234_500n, unit)).to.equal("1.2345 TEST");
    expect(formatAmount(42n, unit)).to.equal("0.000042 TEST");
    expect(formatAmount(3_000_000n, unit)).to.equal("3 TEST");
    expect(formatAmount(10n ** 18n, { symbol: "DAI", decimals: 18 })).to.equal("1 DAI");
    expect(formatAmount(20n, { symbol: "X", decimals: 0 })).to.equal("20 X");
  });

  it("have their unit in the lines about a job", () => {
    const posting = describeProgress(
      { type: "posting_job", model: "m", candidates: [provider], maxPayment: "250000" },
      unit,
    );
    expect(posting).to.match(/1 candidate, locks at most 0\.25 TEST$/);
    const settled = describeProgress(
      {
        type: "settled",
        jobId: "0x01",
        provider,
        payment: "130",
        usage: { inputTokens: 5, outputTokens: 8 },
        transactionHash: "0x02",
      },
      unit,
    );
    expect(settled).to.include("paid 0.00013 TEST for 5 + 8 tokens");
  });
});
