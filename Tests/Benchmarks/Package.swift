// swift-tools-version: 6.2
import PackageDescription

// A separate package, so that the relay's build does not include its measuring tools.
//
// `run` measures the relay with `Benchmarks`, which uses no client library. `ClientBenchmarks` measures ZoneKit and
// ZoneMirror against a relay that runs with `--dev`:
//
//     swift run -c release --package-path Tests/Benchmarks ClientBenchmarks http://127.0.0.1:8080

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "Benchmarks", targets: ["Benchmarks"]),
        .executable(name: "ClientBenchmarks", targets: ["ClientBenchmarks"]),
        .executable(name: "Probe", targets: ["Probe"]),
    ],
    dependencies: [
        .package(name: "zonecast", path: "../..", traits: []),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        // Sockets, threads, and a minimal HTTP and WebSocket client.
        .target(name: "Sockets", dependencies: ["CLinux"], swiftSettings: strict),
        // The floors: SQLite, PostgreSQL and a server that does nothing but write.
        .target(name: "Floors", dependencies: ["Sockets", "CSQLite"], swiftSettings: strict),
        .executableTarget(name: "Benchmarks", dependencies: ["Sockets", "Floors"], swiftSettings: strict),
        .executableTarget(
            name: "ClientBenchmarks",
            dependencies: [
                .product(name: "ZoneKit", package: "zonecast"),
                .product(name: "ZoneMirror", package: "zonecast"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(name: "Probe", dependencies: ["Sockets"], swiftSettings: strict),
    ]
)
