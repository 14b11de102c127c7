// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {MarketHistory} from "./MarketHistory.sol";

/// @dev An honest token; a job is covered by stake in full.
contract CoveredMarketTest is MarketHistory(0, 10_000, 10_000) {}

/// @dev A token that takes a fee; a job is covered in part, by amounts that round.
contract FeeMarketTest is MarketHistory(100, 0, 3_333) {}
