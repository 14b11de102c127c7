import { buildModule } from "@nomicfoundation/hardhat-ignition/modules";
import { buildMarket } from "../market.ts";

/** For local chains and tests: the market with a token of its own that anyone can mint. Parameters: `tokenDecimals`, and see `buildMarket`. */
// oxlint-disable-next-line import/no-default-export -- what Ignition loads
export default buildModule("T4TWithTestToken", (m) => {
  const token = m.contract("TestToken", [m.getParameter("tokenDecimals", 6)]);
  return { token, ...buildMarket(m, token) };
});
