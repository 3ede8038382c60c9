// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours is built alike: Swift 6 mode, explicit existentials and imports, no warning left standing.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

extension Target {
    static func ours(_ name: String, _ dependencies: [Dependency] = [], exclude: [String] = []) -> Target {
        .target(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict)
    }

    static func tests(_ name: String, _ dependencies: [Dependency] = []) -> Target {
        .testTarget(name: name + "Tests", dependencies: [.byName(name: name)] + dependencies, swiftSettings: strict)
    }
}

let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioWebSocket = Target.Dependency.product(name: "NIOWebSocket", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let nioExtras = Target.Dependency.product(name: "NIOExtras", package: "swift-nio-extras")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let grdbSQLite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let asyncHTTPClient = Target.Dependency.product(name: "AsyncHTTPClient", package: "async-http-client")
let nioHPACK = Target.Dependency.product(name: "NIOHPACK", package: "swift-nio-http2")
let nioHTTP2 = Target.Dependency.product(name: "NIOHTTP2", package: "swift-nio-http2")

/// Packages that only the relay and the commands use.
///
/// An app that names this package with `traits: []` does not resolve them.
let server = TargetDependencyCondition.when(traits: ["Server"])
let argumentParser = Target.Dependency.product(
    name: "ArgumentParser",
    package: "swift-argument-parser",
    condition: server
)
let jwtKit = Target.Dependency.product(name: "JWTKit", package: "jwt-kit", condition: server)
let x509 = Target.Dependency.product(name: "X509", package: "swift-certificates", condition: server)
let swiftASN1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1", condition: server)
let configuration = Target.Dependency.product(
    name: "Configuration",
    package: "swift-configuration",
    condition: server
)
let serviceLifecycle = Target.Dependency.product(
    name: "ServiceLifecycle",
    package: "swift-service-lifecycle",
    condition: server
)
let unixSignals = Target.Dependency.product(
    name: "UnixSignals",
    package: "swift-service-lifecycle",
    condition: server
)

/// Whether this store is compiled without the trait `Postgres`: the trait is a condition of every target and so compiles
/// them all anew, which takes long while one works on the store.
let buildsPostgres = Context.environment["ZONECAST_POSTGRES"] != nil
let libpq = Target.Dependency.target(
    name: "CPostgres",
    condition: buildsPostgres ? nil : .when(traits: ["Postgres"])
)
let postgres = strict + (buildsPostgres ? [.define("Postgres")] : [])
/// With it, tests on ZoneTesting's relay also run on the store that `ZONECAST_TEST_STORE` names.
let testStores: [Target.Dependency] = buildsPostgres ? ["StoreTesting"] : []

var package = Package(
    name: "zonecast",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .executable(name: "zonecast", targets: ["zonecast"]),
        .executable(name: "shared-notes", targets: ["SharedNotes"]),
        .library(name: "ZoneKit", targets: ["ZoneKit"]),
        .library(name: "ZoneMirror", targets: ["ZoneMirror"]),
        .library(name: "ZoneTesting", targets: ["ZoneTesting"]),
    ],
    traits: [
        .default(enabledTraits: ["Server"]),
        .trait(name: "Server", description: "What the relay and the commands need beyond the SDK."),
        .trait(name: "Postgres", description: "The store on PostgreSQL, for several relays. Needs libpq."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(
            url: "https://github.com/apple/swift-configuration",
            from: "1.4.0",
            traits: [.trait(name: "YAML", condition: .when(traits: ["Server"]))]
        ),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.15.0"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    ],
    targets: [
        // Nouns and bytes: values only.
        .ours("Records"),
        .ours("Wire", ["Records"], exclude: ["Documentation"]),
        // The relay, from what it decides up to its sockets.
        .ours("RelayCore", ["Records", "Wire"], exclude: ["Documentation"]),
        // The system's clocks, random numbers, descriptors and files.
        .ours("RelaySystem", ["Records", "RelayCore", crypto, cryptoExtras]),
        // What every store needs, whatever it keeps its rows in.
        .ours("StoreKit", ["Records", "Wire", "RelayCore"]),
        .ours(
            "SQLiteStore",
            [
                "CSQLiteSettings", "Records", "Wire", "RelayCore", "RelaySystem", "StoreKit", grdb, grdbSQLite, crypto,
            ],
            exclude: ["Documentation"]
        ),
        .systemLibrary(name: "CSQLiteSettings"),
        // The store on PostgreSQL; empty without the trait.
        .systemLibrary(name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .target(
            name: "PostgresStore",
            dependencies: ["Records", "Wire", "RelayCore", "RelaySystem", "StoreKit", libpq, crypto, cryptoExtras],
            swiftSettings: postgres
        ),
        .ours(
            "RelayAPI",
            ["Records", "Wire", "RelayCore", httpTypes, crypto, logging],
            exclude: ["OpenAPI/openapi.json"]
        ),
        .ours(
            "RelayServer",
            [
                "CZlib", "Records", "Wire", "RelayCore", "RelaySystem", "RelayAPI", nioCore, nioPosix,
                nioHTTP1,
                nioExtras, nioSSL,
                serviceLifecycle, unixSignals, httpTypes, logging, configuration, crypto, cryptoExtras,
            ]
        ),
        // Pages: the operators' console, the demo, zonecast.js; and the management API.
        .ours(
            "RelayConsole",
            [
                "Records", "Wire", "RelayCore", "RelaySystem", "RelayAPI", "RelayServer", httpTypes,
                crypto, cryptoExtras,
            ],
            exclude: ["Web"]
        ),
        // Requests that the relay makes: pushes to devices that sleep, traces to a collector, keys of token issuers.
        .ours(
            "RelayGateways",
            [
                "Records", "Wire", "RelayCore", asyncHTTPClient, jwtKit, nioCore, nioPosix, nioHTTP1, crypto,
                cryptoExtras, x509, swiftASN1,
            ]
        ),
        // The client, from what it decides up to its sockets.
        .ours("SyncCore", ["Records"], exclude: ["Documentation"]),
        .systemLibrary(
            name: "CLibWebSockets",
            pkgConfig: "libwebsockets",
            providers: [.apt(["libwebsockets-dev"]), .brew(["libwebsockets"])]
        ),
        // Answers in gzip; comes with the development files of libwebsockets.
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"]), .brew(["zlib"])]),
        .ours(
            "ZoneKit",
            [
                "Records", "Wire", "SyncCore", logging, crypto, cryptoExtras,
                .target(name: "CLibWebSockets", condition: .when(platforms: [.linux])),
                // Elsewhere URLSession does this.
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: .when(platforms: [.linux])),
                .product(name: "NIOCore", package: "swift-nio", condition: .when(platforms: [.linux])),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: .when(platforms: [.linux])),
                .product(name: "NIOPosix", package: "swift-nio", condition: .when(platforms: [.linux])),
                .product(
                    name: "NIOHTTPCompression",
                    package: "swift-nio-extras",
                    condition: .when(platforms: [.linux])
                ),
            ]
        ),
        .ours("ZoneMirror", ["Records", "Wire", "SyncCore", "ZoneKit", grdb, grdbSQLite], exclude: ["Documentation"]),
        // Both sides in one process.
        .target(
            name: "ZoneTesting",
            dependencies: [
                "Records", "Wire", "RelayCore", "SQLiteStore", "RelaySystem", "RelayAPI", "ZoneKit", "ZoneMirror",
                "SyncCore",
                httpTypes,
            ] + testStores,
            swiftSettings: strict + (buildsPostgres ? [.define("TestStores")] : [])
        ),
        // Programs that a cluster on one machine and tests run, among them PostgreSQL's.
        .ours("ChildProcesses"),
        // Several relays, PostgreSQL and a balancer on one machine.
        .ours("LocalCluster", ["ChildProcesses", nioCore, nioPosix]),
        .executableTarget(
            name: "zonecast",
            dependencies: [
                "Records", "Wire", "RelayCore", "SQLiteStore", "PostgresStore", "RelaySystem", "RelayAPI",
                "RelayServer", "RelayConsole",
                "RelayGateways",
                "LocalCluster", "SyncCore", "StoreKit",
                "ZoneKit", "ZoneMirror", argumentParser, asyncHTTPClient,
                logging, crypto, configuration, serviceLifecycle, unixSignals, nioCore, nioPosix, nioSSL, httpTypes,
            ],
            swiftSettings: postgres
        ),
        // An example: an app with shared notes, on the public interface alone.
        .executableTarget(
            name: "SharedNotes",
            dependencies: ["ZoneKit", "ZoneMirror", argumentParser],
            swiftSettings: strict
        ),
        // An example: the app of the guide "Your first synced app". It is a package of its own, which Xcode opens; its model
        // and its terminal app are also built here.
        .target(
            name: "NotesModel",
            dependencies: ["ZoneKit", "ZoneMirror"],
            path: "Sources/SyncedNotes/Sources/NotesModel",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "notes",
            dependencies: ["NotesModel", "ZoneKit"],
            path: "Sources/SyncedNotes/Sources/notes",
            swiftSettings: strict
        ),
        .tests("Records", ["TestSupport", "ChildProcesses"]),
        .tests("Wire", ["Records"]),
        .tests("RelayCore", ["Records", "Wire"]),
        .tests("StoreKit", ["TestSupport", "Records", "Wire", "RelayCore"]),
        .tests(
            "SQLiteStore",
            ["StoreTesting", "TestSupport", "Records", "Wire", "RelayCore", "RelaySystem", "StoreKit", grdb]
        ),
        .testTarget(
            name: "PostgresStoreTests",
            dependencies: [
                "PostgresStore", "SQLiteStore", "StoreKit", "RelaySystem", "TestSupport", "ChildProcesses", "Records",
                "Wire", "RelayCore",
            ],
            swiftSettings: postgres
        ),
        .tests(
            "RelayAPI",
            [
                "StoreTesting", "TestSupport", "Records", "Wire", "RelayCore", "RelayGateways", "SQLiteStore",
                "RelaySystem", "StoreKit", httpTypes, crypto, cryptoExtras,
            ]
        ),
        .tests(
            "RelayServer",
            [
                "StoreTesting", "TestSupport",
                "CZlib", "Records", "Wire", "RelayCore", "RelaySystem", "RelayAPI", nioCore, nioPosix,
                nioHTTP1,
                nioWebSocket,
                nioEmbedded, httpTypes, logging, crypto, cryptoExtras,
            ]
        ),
        .tests(
            "RelayConsole",
            [
                "StoreTesting", "TestSupport", "Records", "Wire", "RelayCore", "RelaySystem", "RelayAPI", "RelayServer",
                httpTypes,
                logging, crypto, cryptoExtras,
            ]
        ),
        .tests(
            "RelayGateways",
            [
                "TestSupport", "Records", "RelayCore", "ChildProcesses", asyncHTTPClient, nioCore, nioPosix, nioHPACK,
                nioHTTP2, nioSSL, crypto, cryptoExtras, x509, swiftASN1,
            ]
        ),
        .tests("LocalCluster", ["ChildProcesses", nioCore, nioPosix]),
        .tests("SyncCore", ["Records"]),
        .tests(
            "ZoneKit",
            ["TestSupport", "Records", "Wire", "SyncCore", "ZoneTesting", nioCore, nioPosix, nioHTTP1, nioWebSocket]
        ),
        .tests(
            "ZoneMirror",
            ["TestSupport", "Records", "Wire", "RelayAPI", "RelayCore", "SyncCore", "ZoneKit", "ZoneTesting", grdb]
        ),
        .tests(
            "ZoneTesting",
            [
                "TestSupport",
                "Records", "Wire", "RelayAPI", "RelayServer", "ZoneKit", "ZoneMirror", httpTypes,
                logging,
            ]
        ),
        .tests("SharedNotes", ["ZoneKit", "ZoneMirror", "ZoneTesting"]),
        .tests("NotesModel", ["TestSupport", "ChildProcesses", "ZoneKit", "ZoneMirror", "ZoneTesting"]),
        .testTarget(
            name: "zonecastTests",
            dependencies: [
                "zonecast", "TestSupport",
                "Records", "RelayCore", "SQLiteStore", "RelaySystem", "RelayServer", "Wire", "ZoneKit", "ZoneMirror",
                "ChildProcesses", "LocalCluster",
                argumentParser,
                crypto, grdb, logging,
            ],
            swiftSettings: postgres
        ),
        // The package of ZoneTesting's guide, with the settings of a new package.
        .target(
            name: "Shopping",
            dependencies: ["ZoneMirror"],
            path: "Tests/Shopping",
            swiftSettings: [.swiftLanguageMode(.v6)]
        ),
        .testTarget(
            name: "ShoppingTests",
            dependencies: ["Shopping", "ZoneKit", "ZoneMirror", "ZoneTesting"],
            swiftSettings: [.swiftLanguageMode(.v6)]
        ),
        // The README's program, which a test runs twice.
        .executableTarget(
            name: "first-save",
            dependencies: ["ZoneKit"],
            path: "Tests/FirstSave",
            swiftSettings: [.swiftLanguageMode(.v6)]
        ),
        // What several test targets share: waits, gates, ports, folders.
        .target(name: "TestSupport", path: "Tests/TestSupport", swiftSettings: strict),
        // The store that tests run on: the only wiring of one outside the tests of its files.
        .target(
            name: "StoreTesting",
            dependencies: [
                "Records", "Wire", "RelayCore", "SQLiteStore", "PostgresStore", "RelaySystem", "ChildProcesses",
            ],
            path: "Tests/StoreTesting",
            swiftSettings: postgres
        ),
        // What every store must do, in terms of RelayCore's protocols.
        .testTarget(
            name: "StoreConformance",
            dependencies: ["StoreTesting", "TestSupport", "Records", "Wire", "RelayCore", "RelaySystem"],
            path: "Tests/StoreConformance",
            swiftSettings: strict
        ),
        // The store on PostgreSQL beside the same statements without it; empty without the trait.
        .executableTarget(
            name: "store-benchmark",
            dependencies: ["PostgresStore", "SQLiteStore", "StoreKit", "Records", "RelayCore", "ChildProcesses"],
            path: "Tests/StoreBenchmark",
            swiftSettings: postgres
        ),
        // Readers of what strangers send, and inputs that are changed by chance.
        .target(
            name: "Fuzz",
            dependencies: [
                "StoreTesting", "Records", "Wire", "RelayCore", "RelaySystem", "RelayAPI", "RelayServer",
                "RelayConsole",
                "RelayGateways",
                "ZoneKit",
                nioCore, httpTypes, crypto,
            ],
            path: "Tests/Fuzz",
            exclude: ["Corpus"],
            swiftSettings: strict
        ),
        .testTarget(name: "FuzzTests", dependencies: ["Fuzz"], swiftSettings: strict),
        // Everything that is tried at random, for as long as one likes.
        .executableTarget(
            name: "soak",
            dependencies: ["DiskTrials", "Fuzz", argumentParser],
            path: "Tests/Soak",
            swiftSettings: strict
        ),
        // Disks that fail and lose their power, and what must hold then.
        .target(
            name: "DiskTrials",
            dependencies: [
                "Records", "Wire", "RelayCore", "SQLiteStore", "RelaySystem", "RelayAPI", grdb, grdbSQLite, httpTypes,
            ],
            path: "Tests/DiskTrials",
            swiftSettings: strict
        ),
        .testTarget(
            name: "DiskTests",
            dependencies: [
                "DiskTrials", "SQLiteStore", "RelaySystem", "ZoneKit", "ZoneMirror", "ZoneTesting",
                "MutexForThreadSanitizer", grdb,
            ],
            swiftSettings: strict
        ),
        // For `Deploy/test --sanitize thread`; empty in any other build.
        .target(name: "MutexForThreadSanitizer", path: "Tests/MutexForThreadSanitizer"),
        // Whole worlds from one seed; in a program of its own, since a run owns its process.
        .target(
            name: "Simulation",
            dependencies: [
                "Records", "Wire", "RelayCore", "SQLiteStore", "RelaySystem", "RelayAPI", "ZoneKit", "ZoneMirror",
                "ZoneTesting", "StoreTesting",
                "DiskTrials", grdb, httpTypes, crypto,
            ],
            path: "Tests/Simulation",
            swiftSettings: strict
        ),
        .executableTarget(
            name: "simulate",
            dependencies: ["Records", "DiskTrials", "Simulation", "ZoneKit", "ZoneTesting"],
            path: "Tests/Simulate",
            swiftSettings: strict
        ),
        .testTarget(
            name: "SimulationTests",
            dependencies: ["Records", "simulate", "ChildProcesses"],
            swiftSettings: strict
        ),
    ]
)

#if os(Linux)
    // On Apple's systems the name belongs to Apple's framework; here it makes `import CloudKit` compile.
    package.products.append(.library(name: "CloudKit", targets: ["CloudKit"]))
    package.targets += [
        .ours("CloudKit", ["ZoneKit"]),
        // Code as people write it for Apple's framework, in the language mode that most of it is in.
        .testTarget(
            name: "CloudKitIdiomTests",
            dependencies: ["CloudKit", "ZoneTesting"],
            swiftSettings: [.swiftLanguageMode(.v5)]
        ),
    ]
#endif
