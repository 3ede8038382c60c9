// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that nobody builds it who does not measure. It needs a relay that runs with `--dev`:
//
//     swift run -c release KitBenchmarks http://127.0.0.1:8080

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "KitBenchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "zonecast", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .executableTarget(
            name: "KitBenchmarks",
            dependencies: [
                .product(name: "ZoneKit", package: "zonecast"),
                .product(name: "ZoneMirror", package: "zonecast"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: strict
        )
    ]
)
