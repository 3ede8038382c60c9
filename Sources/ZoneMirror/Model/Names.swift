import Records

/// GRDB has a class with the same name.
typealias Record = Records.Record
