// swift-tools-version: 6.2
import PackageDescription

// An app as an SDK user writes it. `check` lists what it resolves: nothing that only the relay needs.
let package = Package(
    name: "DependentApp",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "zonecast", path: "../..", traits: [])],
    targets: [
        .executableTarget(
            name: "DependentApp",
            dependencies: [
                .product(name: "ZoneKit", package: "zonecast"), .product(name: "ZoneMirror", package: "zonecast"),
            ]
        )
    ]
)
