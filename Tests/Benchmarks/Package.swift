// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that the relay's build never waits for its measuring tools, and without dependencies, so that
// what is measured is the relay and not a client library.

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "Benchmarks",
    products: [
        .executable(name: "Benchmarks", targets: ["Benchmarks"]),
        .executable(name: "Probe", targets: ["Probe"]),
    ],
    targets: [
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        // Sockets, threads, and just enough HTTP and WebSocket to drive a server cheaply.
        .target(name: "Sockets", dependencies: ["CLinux"], swiftSettings: strict),
        // What the relay is held against: SQLite, PostgreSQL and a server that does nothing but write.
        .target(name: "Floors", dependencies: ["Sockets", "CSQLite"], swiftSettings: strict),
        .executableTarget(name: "Benchmarks", dependencies: ["Sockets", "Floors"], swiftSettings: strict),
        .executableTarget(name: "Probe", dependencies: ["Sockets"], swiftSettings: strict),
    ]
)
