import ZoneKit
import ZoneMirror

print(CKContainer(identifier: "iCloud.org.example.notes").containerIdentifier ?? "")
