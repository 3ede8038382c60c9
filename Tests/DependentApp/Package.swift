// swift-tools-version: 6.2
import PackageDescription

// An app as an SDK user writes it. `check` lists the packages it resolves: none may be for the relay only.
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
