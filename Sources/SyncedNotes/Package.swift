// swift-tools-version: 6.2
import PackageDescription

// In Xcode: open this file, choose the scheme NotesApp and My Mac, and run.
let package = Package(
    name: "SyncedNotes",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "NotesModel", targets: ["NotesModel"])],
    dependencies: [.package(name: "zonecast", path: "../..", traits: [])],
    targets: [
        .target(
            name: "NotesModel",
            dependencies: [
                .product(name: "ZoneKit", package: "zonecast"), .product(name: "ZoneMirror", package: "zonecast"),
            ]
        ),
        .executableTarget(
            name: "notes",
            dependencies: ["NotesModel", .product(name: "ZoneKit", package: "zonecast")]
        ),
    ]
)

#if !os(Linux)
    package.targets.append(
        .executableTarget(
            name: "NotesApp",
            dependencies: [
                "NotesModel", .product(name: "ZoneKit", package: "zonecast"),
                .product(name: "ZoneMirror", package: "zonecast"),
            ]
        )
    )
#endif
