//! `--trace` of `windward perf client`: windows and rates over time, as far as endpoints know them.

use std::path::{Path, PathBuf};

use windward_net::perf::Interval;
use windward_sim::output::{OutputDir, OutputError, StagedFile};
use windward_sim::table::{Cell, Column, Format, Kind, TableWriter};

/// `flows.csv` as `windward run --trace` has it; but what a flow put through its bottleneck nobody knows at its ends, and there is what it
/// sent instead.
const COLUMNS: [Column<'static>; 8] = [
    Column::new("time_s", Kind::Real),
    Column::new("flow", Kind::Text),
    Column::new("cwnd_packets", Kind::Real),
    Column::new("ssthresh_packets", Kind::Real),
    Column::new("srtt_s", Kind::Real),
    Column::new("in_flight_packets", Kind::Count),
    Column::new("goodput_bps", Kind::Real),
    Column::new("sent_bps", Kind::Real),
];

/// The file, which appears when it is complete.
pub(super) struct Series {
    table: TableWriter<'static, StagedFile>,
    path: PathBuf,
    dir: OutputDir,
}

impl Series {
    pub(super) fn create(dir: &Path, format: Format) -> Result<Self, OutputError> {
        let dir = OutputDir::create(dir)?;
        let file = dir.file(format!("flows.{}", format.extension()))?;
        let path = file.path().to_owned();
        let table = TableWriter::new(file, format, "flows", &COLUMNS)
            .map_err(|error| OutputError::write(&path, error))?;
        Ok(Series { table, path, dir })
    }

    pub(super) fn sample(
        &mut self,
        sample: &Interval,
        names: &[(String, &'static str)],
    ) -> Result<(), OutputError> {
        for (at, ((name, _), flow)) in names.iter().zip(&sample.flows).enumerate() {
            let cells = [
                Cell::Real(sample.end_s),
                Cell::Text(name),
                Cell::Real(flow.cwnd),
                Cell::Real(flow.ssthresh),
                Cell::Real(flow.srtt_s),
                Cell::Count(flow.in_flight),
                Cell::Real(sample.goodput_bps[at]),
                Cell::Real(sample.sent_bps[at]),
            ];
            self.table.row(&cells).map_err(|error| OutputError::write(&self.path, error))?;
        }
        Ok(())
    }

    /// Gives the file its name, and says which.
    pub(super) fn commit(self) -> Result<PathBuf, OutputError> {
        let Series { table, path, mut dir } = self;
        let file = table.finish().map_err(|error| OutputError::write(&path, error))?;
        dir.complete(file)?;
        dir.commit()?;
        Ok(path)
    }
}
