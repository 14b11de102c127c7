// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev The part of the cheat codes that these tests use.
interface Vm {
    function prank(address sender) external;
    function warp(uint256 time) external;
    function load(address target, bytes32 slot) external view returns (bytes32);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function addr(uint256 key) external pure returns (address);
    function envOr(string calldata name, uint256 otherwise) external view returns (uint256);
    function envOr(
        string calldata name,
        string calldata delimiter,
        uint256[] calldata otherwise
    )
        external
        view
        returns (uint256[] memory);
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
