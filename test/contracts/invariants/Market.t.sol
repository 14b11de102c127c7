// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {MarketHandler} from "./MarketHandler.sol";

/// @dev What must hold after every call, for markets with different tokens and parameters. See MarketHandler.sol.
abstract contract MarketInvariants {
    MarketHandler internal handler;

    function invariant_market() external view {
        handler.checkAlways();
    }

    /// @dev At the end of a run every job that is open can be ended by a stranger.
    function afterInvariant() external {
        handler.checkExits();
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(handler);
    }
}

/// @dev An honest token; a job is covered by stake in full.
contract CoveredMarketTest is MarketInvariants {
    function setUp() external {
        handler = new MarketHandler(0, 10_000, 10_000);
    }
}

/// @dev A token that takes a fee; a job is covered in part, by amounts that round.
contract FeeMarketTest is MarketInvariants {
    function setUp() external {
        handler = new MarketHandler(100, 0, 3_333);
    }
}
