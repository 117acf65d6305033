"""What rich draws: colours, a table as wide as the terminal, a progress bar."""

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn

console = Console()
console.print(f"[bold red]loss[/] is [green]down[/] {console.size.width}x{console.size.height} {console.color_system}")
console.print(Panel("as wide as the terminal"))
with Progress(TextColumn("train"), BarColumn(bar_width=None), console=console) as progress:
    task = progress.add_task("train", total=20)
    for _ in range(20):
        progress.advance(task)
console.print("end")
