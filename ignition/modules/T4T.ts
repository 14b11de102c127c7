import { buildModule } from "@nomicfoundation/hardhat-ignition/modules";
import { buildMarket } from "../market.ts";

/** The market for an existing ERC-20 token: the parameter `token`, its address, has no default. Others: see `buildMarket`. */
// oxlint-disable-next-line import/no-default-export -- what Ignition loads
export default buildModule("T4T", (m) => buildMarket(m, m.getParameter<string>("token")));
